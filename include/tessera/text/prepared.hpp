#pragma once
// A prepared corpus: a file of tokens with an index of its documents, both readable while mapped. See
// docs/manual/data.md, "Prepared corpora".

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "tessera/data/corpus.hpp"
#include "tessera/files/mapped_file.hpp"

namespace tessera {

/// The header of an index of documents; count uint64 follow: the position after each document's last token.
struct DocumentHeader {
  char magic[8] = {'T', 'E', 'S', 'S', 'E', 'R', 'A', 'D'};
  std::uint32_t version = 1, entry_bytes = 8;
  std::uint64_t documents = 0;
  std::uint64_t uncounted_runs = 0;                           ///< of the mask next to it; 0: there is none
  std::uint64_t conversations = 0, silent_conversations = 0;  ///< in the silent ones nothing counts
  std::uint64_t unused[2] = {};
};
static_assert(sizeof(DocumentHeader) == 64);
/// Returns where a document's end stands in the index. For the number of documents it is where the index ends.
constexpr std::int64_t place_of_document(std::int64_t number) { return 64 + 8 * number; }

/// A mapped index of documents.
class DocumentIndex {
 public:
  /// UsageError if the file is not such an index, or its documents are not in order within `tokens`.
  DocumentIndex(const std::filesystem::path& file, std::int64_t tokens);
  std::int64_t size() const { return documents_; }
  /// Returns the runs of the mask that was written with it; 0: there was none.
  std::int64_t uncounted_runs() const { return uncounted_runs_; }
  /// Returns how many documents are conversations, and in how many of these nothing counts.
  std::int64_t conversations() const { return conversations_; }
  std::int64_t silent_conversations() const { return silent_conversations_; }
  /// Returns the first token of a document, and the token after its last.
  std::int64_t begin(std::int64_t document) const { return document == 0 ? 0 : end(document - 1); }
  std::int64_t end(std::int64_t document) const;
  /// Returns the document that holds a token; size() for tokens behind the last document.
  std::int64_t document_of(std::int64_t token) const;
  /// Returns the end of the document that holds a token. Tokens behind the last document are one document.
  std::int64_t end_of_token(std::int64_t token) const;

 private:
  MappedFile file_;
  std::int64_t documents_ = 0, tokens_ = 0, uncounted_runs_ = 0, conversations_ = 0, silent_conversations_ = 0;
};

/// Tokens [begin, end) of a corpus.
struct TokenRun {
  std::int64_t begin = 0, end = 0;
  bool operator==(const TokenRun&) const = default;
};

/// The header of a mask of the loss; as many TokenRun follow: tokens that are not targets, in order.
struct MaskHeader {
  char magic[8] = {'T', 'E', 'S', 'S', 'E', 'R', 'A', 'M'};
  std::uint32_t version = 1, entry_bytes = sizeof(TokenRun);
  std::uint64_t runs = 0;
  std::uint64_t unused[5] = {};
};
static_assert(sizeof(MaskHeader) == 64 && sizeof(TokenRun) == 16);
/// Returns where a run stands in the mask. For the number of runs it is where the mask ends.
constexpr std::int64_t place_of_run(std::int64_t number) { return 64 + 16 * number; }

/// A mapped mask of the loss.
class LossMask {
 public:
  /// UsageError if the file is not such a mask, or its runs are not in order within `tokens`.
  LossMask(const std::filesystem::path& file, std::int64_t tokens);
  std::int64_t size() const { return runs_; }
  TokenRun operator[](std::int64_t i) const;
  /// Returns the tokens of all runs.
  std::int64_t uncounted() const { return uncounted_; }
  /// Does what TokenSource::mask_targets says.
  void apply(std::int64_t first, std::int64_t count, std::int32_t* ids) const;

 private:
  MappedFile file_;
  std::int64_t runs_ = 0, uncounted_ = 0;
};

// A cache's folder holds these; the mask only if the loss leaves tokens out.
inline constexpr std::string_view kPreparedTokens = "tokens.bin";
inline constexpr std::string_view kPreparedDocuments = "documents.idx";
inline constexpr std::string_view kPreparedMask = "uncounted.idx";
inline constexpr std::string_view kPreparedInfo = "info.json";

/// Gives tokens the mask next to their file, if there is one. UsageError if it is not a mask of these tokens, or is
/// missing although the index next to them names one.
std::unique_ptr<TokenSource> with_mask(std::unique_ptr<TokenSource> tokens, const std::filesystem::path& file);

/// Opens a file of tokens with its mask. UsageError also where the index next to it says that numbers without a header
/// are halves of longer ones.
std::unique_ptr<TokenSource> open_tokens(const std::filesystem::path& file, const RawTokens& raw);

/// Gives tokens the documents of an index, whose first tokens are not targets. UsageError if the file is missing or is
/// not an index of these tokens.
std::unique_ptr<TokenSource> with_documents(std::unique_ptr<TokenSource> tokens, const std::filesystem::path& index);

/// Returns the mask next to a file of tokens: uncounted.idx of a cache, else FILE.mask.
std::filesystem::path mask_beside(const std::filesystem::path& tokens);

/// Returns the index next to a file of tokens: documents.idx of a cache, else FILE.idx.
std::filesystem::path index_beside(const std::filesystem::path& tokens);

}  // namespace tessera
