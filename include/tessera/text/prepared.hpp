#pragma once
// A prepared corpus: a file of tokens with an index of its documents, both readable while mapped. See
// inputs/README.md, "Prepared corpora".

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "tessera/base/mapped_file.hpp"

namespace tessera {

/// The header of an index of documents; count uint64 follow: the position after each document's last token.
struct DocumentHeader {
  char magic[8] = {'T', 'E', 'S', 'S', 'E', 'R', 'A', 'D'};
  std::uint32_t version = 1, entry_bytes = 8;
  std::uint64_t documents = 0;
  std::uint64_t unused[5] = {};
};
static_assert(sizeof(DocumentHeader) == 64);

/// A mapped index of documents.
class DocumentIndex {
 public:
  /// UsageError if the file is no such index, or its documents are not in order within `tokens`.
  DocumentIndex(const std::filesystem::path& file, std::int64_t tokens);
  std::int64_t size() const { return documents_; }
  /// Returns the first token of a document, and the token after its last.
  std::int64_t begin(std::int64_t document) const { return document == 0 ? 0 : end(document - 1); }
  std::int64_t end(std::int64_t document) const;

 private:
  MappedFile file_;
  std::int64_t documents_ = 0;
};

// A cache's folder holds these.
inline constexpr std::string_view kPreparedTokens = "tokens.bin";
inline constexpr std::string_view kPreparedDocuments = "documents.idx";
inline constexpr std::string_view kPreparedInfo = "info.json";

/// Returns the index beside a file of tokens: documents.idx of a cache, else FILE.idx.
std::filesystem::path index_beside(const std::filesystem::path& tokens);

}  // namespace tessera
