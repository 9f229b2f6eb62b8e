#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/data/token_header.hpp"
#include "tessera/files/durable_file.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kBlock = 1 << 20;  // tokens

template <class Id>
void write_ids(const TokenSource& source, std::ofstream& file) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(kBlock));
  std::vector<Id> narrow(ids.size());
  for (std::int64_t first = 0; first < source.size(); first += kBlock) {
    const std::int64_t count = std::min(kBlock, source.size() - first);
    source.copy(first, count, ids.data());
    std::transform(ids.begin(), ids.begin() + count, narrow.begin(),
                   [](std::int32_t id) { return static_cast<Id>(id); });
    file.write(reinterpret_cast<const char*>(narrow.data()),
               static_cast<std::streamsize>(count) * static_cast<std::streamsize>(sizeof(Id)));
  }
}

}  // namespace

std::array<std::byte, kTokenHeader> token_header(TokenHeader kind, std::int64_t tokens, std::int64_t token_bytes) {
  std::array<std::byte, kTokenHeader> bytes{};
  if (kind == TokenHeader::wide) {
    const WideTokenHeader fields{kWideVersion, static_cast<std::uint32_t>(token_bytes),
                                 static_cast<std::uint64_t>(tokens)};
    std::memcpy(bytes.data(), kWideMagic.data(), kWideMagic.size());
    std::memcpy(bytes.data() + kWideMagic.size(), &fields, sizeof fields);
    return bytes;
  }
  TESSERA_ASSERT(tokens <= std::numeric_limits<std::int32_t>::max(), "llm.c's header counts no {} tokens", tokens);
  const LlmcTokenKind& llmc = kLlmcTokenKinds[token_bytes == 4 ? 1 : 0];
  const std::array<std::int32_t, 3> fields{llmc.magic, llmc.version, static_cast<std::int32_t>(tokens)};
  std::memcpy(bytes.data(), fields.data(), sizeof fields);
  return bytes;
}

void write_token_file(const TokenSource& source, const std::filesystem::path& path) {
  if (source.size() > std::numeric_limits<std::int32_t>::max()) {
    throw refusal("{}: {} tokens are too many", path.string(), source.size())
        .because("the header of llm.c's file counts them in 31 bits")
        .use("at most {}", std::numeric_limits<std::int32_t>::max());
  }
  const std::int64_t token_bytes = bytes_of_token(source.id_bound());
  const auto header = token_header(TokenHeader::llmc, source.size(), token_bytes);
  const std::filesystem::path beside = fmt::format("{}.{}.tmp", path.string(), ::getpid());
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(header.data()), kTokenHeader);
  if (token_bytes == 4) {
    write_ids<std::uint32_t>(source, file);
  } else {
    write_ids<std::uint16_t>(source, file);
  }
  file.close();
  try {
    if (!file.good()) throw IoError("cannot write {}", beside.string());
    rename_durably(beside, path);
  } catch (...) {
    ::unlink(beside.c_str());
    throw;
  }
}

}  // namespace tessera
