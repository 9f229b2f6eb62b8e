#include "tessera/data/dataset.hpp"

#include <xxhash.h>

#include <array>

namespace tessera {

Dataset::Dataset(const DataOptions& options, std::int64_t vocab, std::int64_t seq_len)
    : vocab_(vocab),
      source_(open_corpus(options, vocab)),
      split_(split_corpus(source_->size(), options.val_fraction, seq_len)),
      train_(split_.train, seq_len, options.order, options.seed) {
  if (split_.validation.count > 0)
    validation_.emplace(split_.validation, seq_len, SampleOrder::sequential, options.seed);
}

std::uint64_t Dataset::fingerprint() const {
  const std::array<std::int64_t, 2> borders{split_.train.count, split_.validation.count};
  return XXH3_64bits_withSeed(borders.data(), sizeof borders, tessera::fingerprint(*source_));
}

}  // namespace tessera
