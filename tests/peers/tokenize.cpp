// tessera_tokenize TOKENIZER DOCUMENTS THREADS ROUNDS [IDS]: encodes documents on threads, ROUNDS times, and prints the
// seconds of each round. tokenizers_peer.py compares it with the tokenizers library.
//
// DOCUMENTS: for each document its length in bytes (64 bits, little-endian) and its text.
// IDS: receives the ids of the last round: for each document their number (64 bits) and the ids (32 bits each).

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/threads.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

using namespace tessera;

namespace {

std::vector<std::string_view> documents_of(std::string_view file) {
  std::vector<std::string_view> documents;
  while (!file.empty()) {
    std::uint64_t length = 0;
    if (file.size() < sizeof(length)) throw UsageError("the documents end in the middle of a length");
    std::memcpy(&length, file.data(), sizeof(length));
    file.remove_prefix(sizeof(length));
    if (file.size() < length) throw UsageError("the last document is shorter than its length");
    documents.push_back(file.substr(0, length));
    file.remove_prefix(length);
  }
  return documents;
}

using Ids = std::vector<std::vector<std::int32_t>>;

/// Encodes all documents; threads take the next one each. Encoders (and their caches) are of this round alone.
double encode_once(const Tokenizer& tokenizer, const std::vector<std::string_view>& documents, int threads, Ids& ids) {
  ids.assign(documents.size(), {});
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.push_back(start_thread("tokenize", [&] {
      const auto encoder = tokenizer.encoder();
      for (std::size_t number = next++; number < documents.size(); number = next++)
        encoder->encode(documents[number], ids[number]);
    }));
  }
  for (std::thread& worker : workers) worker.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void write_ids(const char* path, const Ids& ids) {
  std::ofstream file(path, std::ios::binary);
  for (const auto& document : ids) {
    const std::uint64_t count = document.size();
    file.write(reinterpret_cast<const char*>(&count), sizeof(count));
    file.write(reinterpret_cast<const char*>(document.data()),
               static_cast<std::streamsize>(document.size() * sizeof(std::int32_t)));
  }
  if (!file) throw IoError("cannot write {}", path);
}

int run(int count, char** arguments) {
  if (count != 5 && count != 6) throw UsageError("tessera_tokenize TOKENIZER DOCUMENTS THREADS ROUNDS [IDS]");
  const auto tokenizer = open_tokenizer(arguments[1]);
  std::ifstream file(arguments[2], std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::vector<std::string_view> documents = documents_of(text);
  Ids ids;
  for (int round = 0; round < std::stoi(arguments[4]); ++round)
    std::printf("%.6f\n", encode_once(*tokenizer, documents, std::stoi(arguments[3]), ids));
  if (count == 6) write_ids(arguments[5], ids);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tessera_tokenize: %s\n", error.what());
    return 2;
  }
}
