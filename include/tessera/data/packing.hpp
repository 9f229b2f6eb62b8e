#pragma once
// data.packing = documents: samples that hold whole documents.

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tessera/config/enums.hpp"
#include "tessera/data/token_range.hpp"
#include "tessera/data/token_source.hpp"

namespace tessera {

/// Documents of a part of a corpus, packed into samples of at most seq_len + 1 tokens.
///
/// Documents are packed in windows, those that begin in the same stretch of tokens, by best fit decreasing (D. S.
/// Johnson et al., "Worst-case performance bounds for simple one-dimensional packing algorithms", SIAM J. Comput. 3,
/// 1974). A window is a function of its documents alone, so nothing is stored but two numbers for each, and four bytes
/// for a sample: the windows in use are packed again, however long the corpus is. All calls may come from several
/// threads at once.
class DocumentPacking {
 public:
  /// Goes once through all documents of `range`, which begins where one begins. A document of more than seq_len + 1
  /// tokens is cut, so that each of its targets is in one piece, or left out; one of a single token has no target. The
  /// source must have documents, and outlive the packing. UsageError if no document is left.
  DocumentPacking(const TokenSource& source, TokenRange range, std::int64_t seq_len, TooLong too_long);

  std::int64_t samples() const { return windows_.back().first_sample; }
  std::int64_t seq_len() const { return seq_len_; }
  /// Returns the documents of a sample in the order of the corpus, or pieces of them: at most seq_len + 1 tokens.
  TokenRanges ranges(std::int64_t sample) const;
  /// Returns how many tokens a sample holds, without its padding.
  std::int64_t tokens_in(std::int64_t sample) const { return sample_tokens_[static_cast<std::size_t>(sample)]; }
  /// Returns the targets in samples `first` .. samples()-1.
  std::int64_t targets_from(std::int64_t first) const;

  TooLong rule() const { return rule_; }
  /// Returns how many documents the samples hold, whole or in pieces.
  std::int64_t documents() const { return documents_; }
  /// Returns the most documents of a sample; its padding is one.
  std::int64_t most_documents() const { return most_documents_; }
  /// Returns how many documents were too long.
  std::int64_t too_long() const { return too_long_; }
  /// Returns the share of the samples' tokens that no document fills.
  double padding() const;

 private:
  struct Window {
    std::int64_t first_sample = 0, targets_before = 0;
  };
  struct PackedWindow {
    std::vector<TokenRanges> samples;
    std::int64_t documents = 0, too_long = 0, ranges = 0;
  };
  PackedWindow pack(std::int64_t window) const;
  std::shared_ptr<const PackedWindow> packed(std::int64_t window) const;
  std::int64_t window_of(std::int64_t sample) const;

  const TokenSource& source_;
  TokenRange range_;
  std::int64_t seq_len_, window_tokens_;
  TooLong rule_;
  std::vector<Window> windows_;  ///< and one that ends them
  std::vector<std::int32_t> sample_tokens_;
  std::int64_t documents_ = 0, most_documents_ = 0, too_long_ = 0, tokens_ = 0;

  mutable std::mutex mutex_;
  mutable std::list<std::pair<std::int64_t, std::shared_ptr<const PackedWindow>>> recent_;  ///< the latest first
};

}  // namespace tessera
