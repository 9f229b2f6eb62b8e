#include "tessera/text/prepared.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <ranges>

#include "tessera/base/refuse.hpp"
#include "tessera/data/token_decorator.hpp"
#include "tessera/files/byte_file.hpp"

namespace tessera {

namespace {

/// Reads the header of a file of entries, which `entries` counts.
template <class Header, class Refuse>
Header header_of(const MappedFile& file, std::uint64_t Header::*entries, const Refuse& refuse) {
  Header header;
  const Header ours;
  const auto bytes = file.bytes();
  if (bytes.size() < sizeof header) refuse("is shorter than its header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, ours.magic, sizeof header.magic) != 0) refuse("has another magic number");
  if (header.version != ours.version || header.entry_bytes != ours.entry_bytes) refuse("has another version");
  const std::size_t behind = bytes.size() - sizeof header;
  if (header.*entries != behind / ours.entry_bytes || behind % ours.entry_bytes != 0)
    refuse("is truncated, or not finished");
  return header;
}

}  // namespace

DocumentIndex::DocumentIndex(const std::filesystem::path& file, std::int64_t tokens) : file_(file), tokens_(tokens) {
  const auto refuse = [&](const char* why) {
    throw refusal("{} is not an index of documents", file.string()).because("it {}", why).hint("Prepare it again");
  };
  const auto header = header_of(file_, &DocumentHeader::documents, refuse);
  documents_ = static_cast<std::int64_t>(header.documents);
  uncounted_runs_ = static_cast<std::int64_t>(header.uncounted_runs);
  conversations_ = static_cast<std::int64_t>(header.conversations);
  silent_conversations_ = static_cast<std::int64_t>(header.silent_conversations);
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < documents_; ++i) {
    if (end(i) < last || end(i) > tokens) refuse("has documents out of order, or beyond the tokens");
    last = end(i);
  }
}

LossMask::LossMask(const std::filesystem::path& file, std::int64_t tokens) : file_(file) {
  const auto refuse = [&](const char* why) {
    throw refusal("{} is not a mask of the loss", file.string()).because("it {}", why).hint("Prepare it again");
  };
  runs_ = static_cast<std::int64_t>(header_of(file_, &MaskHeader::runs, refuse).runs);
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < runs_; ++i) {
    const TokenRun run = (*this)[i];
    if (run.begin < last || run.end <= run.begin || run.end > tokens)
      refuse("has runs out of order, or beyond the tokens");
    last = run.end;
    uncounted_ += run.end - run.begin;
  }
}

TokenRun LossMask::operator[](std::int64_t i) const {
  TokenRun run;
  std::memcpy(&run, file_.bytes().data() + place_of_run(i), sizeof run);
  return run;
}

void LossMask::apply(std::int64_t first, std::int64_t count, std::int32_t* ids) const {
  const auto runs = std::views::iota(std::int64_t{0}, runs_);
  // The first run that ends behind `first`, and those after it.
  auto at = std::ranges::partition_point(runs, [&](std::int64_t i) { return (*this)[i].end <= first; });
  for (; at != runs.end(); ++at) {
    const TokenRun run = (*this)[*at];
    if (run.begin >= first + count) return;
    const std::int64_t begin = std::max(run.begin, first), end = std::min(run.end, first + count);
    std::fill(ids + (begin - first), ids + (end - first), kUncountedToken);
  }
}

std::int64_t DocumentIndex::end(std::int64_t document) const {
  std::int64_t end = 0;
  std::memcpy(&end, file_.bytes().data() + place_of_document(document), sizeof end);
  return end;
}

std::int64_t DocumentIndex::document_of(std::int64_t token) const {
  const auto documents = std::views::iota(std::int64_t{0}, documents_);
  const auto found = std::ranges::partition_point(documents, [&](std::int64_t i) { return end(i) <= token; });
  return found == documents.end() ? documents_ : *found;
}

std::int64_t DocumentIndex::end_of_token(std::int64_t token) const {
  const std::int64_t document = document_of(token);
  return document == documents_ ? tokens_ : end(document);
}

namespace {

/// Tokens with the documents of an index. A document's first token is not a target, because nothing precedes it there.
class DocumentTokens final : public TokenDecorator {
 public:
  DocumentTokens(std::unique_ptr<TokenSource> tokens, const std::filesystem::path& index)
      : TokenDecorator(std::move(tokens)), index_(index, size()) {}
  bool has_documents() const override { return true; }
  std::int64_t document_end(std::int64_t token) const override { return index_.end_of_token(token); }
  bool masks_loss() const override { return true; }
  void mask_targets(std::int64_t first, std::int64_t count, std::int32_t* ids) const override {
    TokenDecorator::mask_targets(first, count, ids);
    if (first == 0 && count > 0) ids[0] = kUncountedToken;
    for (std::int64_t end = std::max<std::int64_t>(first - 1, 0); end < first + count;) {
      end = document_end(end);
      if (end >= first && end < first + count) ids[end - first] = kUncountedToken;
    }
  }

 private:
  DocumentIndex index_;
};

/// Tokens of which it is known what the loss counts; it leaves out the runs of a mask, if there is one.
class MaskedTokens final : public TokenDecorator {
 public:
  /// `share`: of it the conversations are known. `mask` may be missing.
  MaskedTokens(std::unique_ptr<TokenSource> tokens, const std::filesystem::path& mask, CountedShare share)
      : TokenDecorator(std::move(tokens)), share_(share) {
    if (path_exists(mask)) mask_.emplace(mask, size());
    share_.of_tokens = size();
    share_.tokens = size() - (mask_ ? mask_->uncounted() : 0);
  }
  std::int64_t runs() const { return mask_ ? mask_->size() : 0; }
  CountedShare counted_share() const override { return share_; }
  bool masks_loss() const override { return mask_.has_value(); }
  void mask_targets(std::int64_t first, std::int64_t count, std::int32_t* ids) const override {
    TokenDecorator::mask_targets(first, count, ids);
    if (mask_) mask_->apply(first, count, ids);
  }

 private:
  std::optional<LossMask> mask_;
  CountedShare share_;
};

}  // namespace

std::unique_ptr<TokenSource> with_documents(std::unique_ptr<TokenSource> tokens, const std::filesystem::path& index) {
  if (!path_exists(index)) {
    throw refusal(
        "documents are to be kept apart (data.document_mask = true, as auto is with prompts and with data.packing = "
        "documents), which needs an index of documents for {}, but {} is missing",
        tokens->describe(), index.string())
        .hint(
            "Run tessera data prepare, which writes both, or set data.document_mask = false, with data.packing = "
            "stream");
  }
  return std::make_unique<DocumentTokens>(std::move(tokens), index);
}

std::unique_ptr<TokenSource> with_mask(std::unique_ptr<TokenSource> tokens, const std::filesystem::path& file) {
  const std::filesystem::path index = index_beside(file), mask = mask_beside(file);
  std::int64_t runs = 0;
  CountedShare share;
  if (path_exists(index)) {
    const DocumentIndex documents(index, tokens->size());
    runs = documents.uncounted_runs();
    share.conversations = documents.conversations(), share.silent_conversations = documents.silent_conversations();
  }
  if (!path_exists(mask) && runs > 0) {
    throw refusal("{} is missing, but according to {} the loss leaves prompts out", mask.string(), index.string())
        .hint("Copy it too, or prepare the text again");
  }
  if (!path_exists(mask) && share.conversations == 0) return tokens;
  auto masked = std::make_unique<MaskedTokens>(std::move(tokens), mask, share);
  if (runs > 0 && masked->runs() != runs)
    throw refusal("{} has {} runs of tokens, but {} names {}", mask.string(), masked->runs(), index.string(), runs)
        .because("they are of different texts");
  return masked;
}

std::unique_ptr<TokenSource> open_tokens(const std::filesystem::path& file, const RawTokens& raw) {
  auto tokens = open_token_file(file, raw);
  const std::filesystem::path index = index_beside(file);
  if (raw.bytes == TokenBytes::automatic && path_exists(index) && !has_token_header(file)) {
    const DocumentIndex documents(index, tokens->size());
    if (documents.size() > 0 && 2 * documents.end(documents.size() - 1) == tokens->size()) {
      throw refusal("{} has no header, and its numbers cannot be taken for 16-bit tokens", file.string())
          .because("according to {} it has half as many", index.string())
          .hint("Set data.token_bytes = 4");
    }
  }
  return with_mask(std::move(tokens), file);
}

namespace {

/// Returns whether tokens are those of a cache's folder, and not a file of the user's that has the same name.
bool is_cached(const std::filesystem::path& tokens) {
  return tokens.filename() == kPreparedTokens && path_exists(tokens.parent_path() / kPreparedInfo);
}

}  // namespace

std::filesystem::path mask_beside(const std::filesystem::path& tokens) {
  if (is_cached(tokens)) return tokens.parent_path() / kPreparedMask;
  return tokens.string() + ".mask";
}

std::filesystem::path index_beside(const std::filesystem::path& tokens) {
  if (is_cached(tokens)) return tokens.parent_path() / kPreparedDocuments;
  return tokens.string() + ".idx";
}

}  // namespace tessera
