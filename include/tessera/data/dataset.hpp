#pragma once
// The data of a run: a corpus, split, with the order of its samples.

#include <cstdint>
#include <memory>
#include <optional>

#include "tessera/data/corpus.hpp"
#include "tessera/data/sampler.hpp"

namespace tessera {

class Dataset {
 public:
  /// Opens data.source and checks it against the model: vocabulary and sequence length. UsageError when it does not
  /// fit.
  Dataset(const DataOptions& options, std::int64_t vocab, std::int64_t seq_len);

  const TokenSource& source() const { return *source_; }
  const Split& split() const { return split_; }
  /// Returns the training samples, in the order of data.order.
  const Sampler& train() const { return train_; }
  /// Returns the validation samples, sequential; nothing when data.val_fraction is 0.
  const std::optional<Sampler>& validation() const { return validation_; }
  std::int64_t vocab() const { return vocab_; }
  /// Computes tessera::fingerprint; includes the split.
  std::uint64_t fingerprint() const;

 private:
  std::int64_t vocab_;
  std::unique_ptr<TokenSource> source_;
  Split split_;
  Sampler train_;
  std::optional<Sampler> validation_;
};

}  // namespace tessera
