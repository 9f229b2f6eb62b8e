#include "tessera/text/prepared.hpp"

#include <cstring>

#include "tessera/base/error.hpp"

namespace tessera {

DocumentIndex::DocumentIndex(const std::filesystem::path& file, std::int64_t tokens) : file_(file) {
  DocumentHeader header;
  const auto bytes = file_.bytes();
  const auto refuse = [&](const char* why) {
    throw UsageError("{}: no index of documents ({}): prepare it again", file.string(), why);
  };
  if (bytes.size() < sizeof header) refuse("shorter than its header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, DocumentHeader().magic, sizeof header.magic) != 0) refuse("another magic number");
  if (header.version != DocumentHeader().version || header.entry_bytes != 8) refuse("another version");
  if (header.documents != (bytes.size() - sizeof header) / 8 || (bytes.size() - sizeof header) % 8 != 0)
    refuse("truncated, or not finished");
  documents_ = static_cast<std::int64_t>(header.documents);
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < documents_; ++i) {
    if (end(i) < last || end(i) > tokens) refuse("documents out of order, or beyond the tokens");
    last = end(i);
  }
}

std::int64_t DocumentIndex::end(std::int64_t document) const {
  std::int64_t end = 0;
  std::memcpy(&end, file_.bytes().data() + sizeof(DocumentHeader) + 8 * document, sizeof end);
  return end;
}

std::filesystem::path index_beside(const std::filesystem::path& tokens) {
  if (tokens.filename() == kPreparedTokens) return tokens.parent_path() / kPreparedDocuments;
  return tokens.string() + ".idx";
}

}  // namespace tessera
