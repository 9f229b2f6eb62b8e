#pragma once
// The tokens of sample i: a pure function of (seed, i).

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/config/options.hpp"
#include "tessera/data/mixture.hpp"
#include "tessera/data/packing.hpp"

namespace tessera {

/// The last part of a corpus is kept for validation.
struct Split {
  TokenRange train, validation;  ///< validation is empty when its fraction is 0
};

/// Returns how many of a corpus' tokens are kept for validation: the last `val_fraction` of them, rounded down.
std::int64_t tokens_for_validation(std::int64_t tokens, double val_fraction);

/// UsageError when a wanted part is too short for one sample of seq_len + 1 tokens.
Split split_corpus(std::int64_t tokens, double val_fraction, std::int64_t seq_len);

/// A bijection of 0 .. n-1 that depends on (seed, epoch), without a table. Applies a Feistel network over the next
/// power of four until the result is below n. (Black & Rogaway 2002, "Ciphers with arbitrary finite domains".)
class Permutation {
 public:
  Permutation(std::int64_t n, std::int64_t seed, std::int64_t epoch);
  /// Returns the image of index (0 .. n-1).
  std::int64_t operator()(std::int64_t index) const;

 private:
  std::uint64_t once(std::uint64_t value) const;
  std::uint64_t n_, seed_;
  std::uint32_t epoch_;
  int half_bits_;
};

/// Samples 0, 1, 2, ... without end: epoch after epoch over the n samples of a range, or of packed documents. In a
/// mixture each source has its own epochs.
class Sampler {
 public:
  /// Has n = (range.count - 1) / seq_len samples, at least one (else InternalError: split_corpus has checked).
  Sampler(TokenRange range, std::int64_t seq_len, SampleOrder order, std::int64_t seed);

  Sampler(std::shared_ptr<const DocumentPacking> packing, SampleOrder order, std::int64_t seed);

  /// Mixes the samples of sources, which are alike but for their ranges.
  Sampler(std::vector<Sampler> sources, Mixture mixture);

  /// Returns the samples of an epoch; of a mixture those of one epoch of each source.
  std::int64_t samples_per_epoch() const { return samples_; }
  std::int64_t seq_len() const { return seq_len_; }
  SampleOrder order() const { return order_; }

  /// Returns the sources of a mixture; empty for a single source.
  const std::vector<Sampler>& sources() const { return sources_; }
  /// Returns which source of a mixture has a sample; 0 for a single source.
  std::size_t source_of(std::int64_t sample) const { return mixture_ ? (*mixture_)(sample).source : 0; }
  /// Returns the epochs of a source that the first `samples` of the mixture hold.
  double epochs_of(std::size_t source, std::int64_t samples) const;

  /// Returns the packing, of a mixture its first source's; null where samples are stretches of the range.
  const DocumentPacking* packing() const { return packing_.get(); }

  /// Returns how many tokens sample i of a single source holds, without its padding.
  std::int64_t tokens_in(std::int64_t sample) const {
    return packing_ ? packing_->tokens_in(place(sample)) : seq_len_ + 1;
  }
  /// Returns the seq_len + 1 tokens of sample i (inputs, and targets shifted by one), fewer of packed documents.
  TokenRanges ranges(std::int64_t sample) const;
  /// Returns the most documents, or pieces of them, that any sample's inputs hold: goes through them all. The source is
  /// that of the range, and has documents.
  std::int64_t most_documents(const TokenSource& source) const;
  /// Returns the targets of the whole range that are in none of its first `samples` in order.
  std::int64_t targets_after(std::int64_t samples) const;

 private:
  /// Returns which of a single source's samples, in the order of the corpus, is sample i.
  std::int64_t place(std::int64_t sample) const;

  TokenRange range_;
  std::shared_ptr<const DocumentPacking> packing_;
  std::int64_t seq_len_, samples_, seed_;
  SampleOrder order_;
  std::vector<Sampler> sources_;
  std::optional<Mixture> mixture_;
};

/// Returns the first sample of micro-batch l of step s (from 0): s*G + l*B. A step has `micro_batches` (= world *
/// accumulation) of `batch` samples each. The caller assigns micro-batches to ranks.
std::int64_t first_sample_of(std::int64_t step, std::int64_t micro_batches, std::int64_t micro_batch_number,
                             std::int64_t batch);

/// Returns the samples that a run reads by train.tokens (samples have `seq_len` of them) or by train.epochs, rounded
/// up; nothing where train.steps decides. UsageError if they do not fit 63 bits.
std::optional<std::int64_t> samples_of_run(const TrainOptions& options, std::int64_t seq_len,
                                           std::int64_t samples_per_epoch);

}  // namespace tessera
