#include "tessera/data/sampler.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "tessera/base/counter_rng.hpp"
#include "tessera/base/decimal.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera {

std::int64_t tokens_for_validation(std::int64_t tokens, double val_fraction) {
  return std::min(static_cast<std::int64_t>(std::floor(static_cast<double>(tokens) * val_fraction)), tokens);
}

Split split_corpus(std::int64_t tokens, double val_fraction, std::int64_t seq_len) {
  TESSERA_ASSERT(tokens >= 0 && seq_len >= 1 && val_fraction >= 0.0 && val_fraction < 1.0,
                 "split of {} tokens, fraction {}, length {}", tokens, val_fraction, seq_len);
  const std::int64_t kept = tokens_for_validation(tokens, val_fraction);
  const Split split{.train = {0, tokens - kept}, .validation = {tokens - kept, kept}};
  if (split.train.count < seq_len + 1) {
    throw refusal(
        "{} tokens for training (of {} in all, less data.val_fraction = {}) are less than one sample of "
        "train.seq_len + 1 = {}",
        split.train.count, tokens, val_fraction, seq_len + 1)
        .use("a longer corpus or shorter sequences");
  }
  if (val_fraction > 0.0 && kept < seq_len + 1) {
    throw refusal(
        "{} tokens for validation (data.val_fraction = {} of {}) are less than one sample of train.seq_len + 1 = {}",
        kept, val_fraction, tokens, seq_len + 1)
        .use("a larger data.val_fraction, 0 for no evaluation, or shorter sequences");
  }
  return split;
}

Permutation::Permutation(std::int64_t n, std::int64_t seed, std::int64_t epoch)
    : n_(static_cast<std::uint64_t>(n)),
      seed_(static_cast<std::uint64_t>(seed)),
      epoch_(static_cast<std::uint32_t>(epoch)) {
  TESSERA_ASSERT(n >= 1 && n <= std::int64_t{1} << 62 && epoch >= 0, "permutation of {} in epoch {}", n, epoch);
  const auto bits = static_cast<int>(std::bit_width(n_ - 1));
  half_bits_ = std::max(1, (bits + 1) / 2);
}

std::uint64_t Permutation::once(std::uint64_t value) const {
  constexpr std::uint64_t rounds = 8;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_, right = value & mask;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const auto noise = philox(seed_, RandomUse::sample_order, epoch_, (round << 32) | right)[0];
    const std::uint64_t next = left ^ (noise & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

std::int64_t Permutation::operator()(std::int64_t index) const {
  auto value = static_cast<std::uint64_t>(index);
  TESSERA_ASSERT(value < n_, "index {} of a permutation of {}", index, n_);
  // The walk stays on the cycle of a number below n, so it comes back below n: at most 4 turns on average.
  do value = once(value);
  while (value >= n_);
  return static_cast<std::int64_t>(value);
}

Sampler::Sampler(TokenRange range, std::int64_t seq_len, SampleOrder order, std::int64_t seed)
    : range_(range), seq_len_(seq_len), samples_((range.count - 1) / seq_len), seed_(seed), order_(order) {
  TESSERA_ASSERT(range.first >= 0 && seq_len >= 1 && range.count >= seq_len + 1, "samples of {} tokens in {} tokens",
                 seq_len + 1, range.count);
}

Sampler::Sampler(std::shared_ptr<const DocumentPacking> packing, SampleOrder order, std::int64_t seed)
    : packing_(std::move(packing)),
      seq_len_(packing_->seq_len()),
      samples_(packing_->samples()),
      seed_(seed),
      order_(order) {}

Sampler::Sampler(std::vector<Sampler> sources, Mixture mixture) : Sampler(sources.at(0)) {
  samples_ = 0;
  for (const Sampler& one : sources) samples_ = checked_add(samples_, one.samples_);
  sources_ = std::move(sources);
  mixture_ = std::move(mixture);
}

double Sampler::epochs_of(std::size_t source, std::int64_t samples) const {
  const std::int64_t of_source = mixture_ ? mixture_->count(source, samples) : samples;
  return static_cast<double>(of_source) / static_cast<double>(mixture_ ? sources_[source].samples_ : samples_);
}

std::int64_t Sampler::targets_after(std::int64_t samples) const {
  return packing_ ? packing_->targets_from(samples) : range_.count - 1 - samples * seq_len_;
}

std::int64_t Sampler::most_documents(const TokenSource& source) const {
  std::int64_t most = 0;
  for (const Sampler& one : sources_) most = std::max(most, one.most_documents(source));
  if (!sources_.empty()) return most;
  if (packing_) return packing_->most_documents();
  for (std::int64_t sample = 0, at = range_.first; sample < samples_; ++sample) {
    const std::int64_t end = range_.first + (sample + 1) * seq_len_;
    std::int64_t documents = 0;
    for (; at < end; ++documents) at = source.document_end(at);
    most = std::max(most, documents);
    at = end;
  }
  return most;
}

std::int64_t Sampler::place(std::int64_t sample) const {
  const std::int64_t epoch = sample / samples_, index = sample % samples_;
  return order_ == SampleOrder::sequential ? index : Permutation(samples_, seed_, epoch)(index);
}

TokenRanges Sampler::ranges(std::int64_t sample) const {
  TESSERA_ASSERT(sample >= 0, "sample {}", sample);
  if (mixture_) {
    const auto [source, index] = (*mixture_)(sample);
    return sources_[source].ranges(index);
  }
  const std::int64_t at = place(sample);
  if (packing_) return packing_->ranges(at);
  return {{range_.first + at * seq_len_, seq_len_ + 1}};
}

std::int64_t first_sample_of(std::int64_t step, std::int64_t micro_batches, std::int64_t micro_batch_number,
                             std::int64_t batch) {
  TESSERA_ASSERT(step >= 0 && micro_batch_number >= 0 && micro_batch_number < micro_batches && batch >= 1,
                 "micro-batch {} of {} in step {}", micro_batch_number, micro_batches, step);
  const auto number = checked_add(checked_multiply(step, micro_batches), micro_batch_number);
  return checked_multiply(number, batch);
}

std::optional<std::int64_t> samples_of_run(const TrainOptions& options, std::int64_t seq_len,
                                           std::int64_t samples_per_epoch) {
  if (options.tokens > 0) return (options.tokens - 1) / seq_len + 1;
  if (options.epochs <= 0) return std::nullopt;
  const auto samples = decimal_product(options.epochs, samples_per_epoch);
  if (!samples || samples->whole == std::numeric_limits<std::int64_t>::max())
    throw refuse("train.epochs", options.epochs)
        .because("passes over {} samples must fit 63 bits", samples_per_epoch)
        .use("fewer epochs");
  return samples->whole + (samples->exact ? 0 : 1);
}

}  // namespace tessera
