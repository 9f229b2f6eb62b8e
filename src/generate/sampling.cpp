#include "tessera/generate/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/base/counter_rng.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

/// Returns the id of the largest logit, the lowest of equal ones.
std::int32_t largest(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]))
      throw NumericalError("logit {} is not a number, which is a numerical failure of the model", i);
    if (logits[i] > logits[best]) best = i;
  }
  if (!std::isfinite(logits[best]))
    throw NumericalError("the largest logit is {}, which is a numerical failure of the model", logits[best]);
  return static_cast<std::int32_t>(best);
}

/// Returns 53 uniform bits as a number in [0, 1).
double uniform(std::uint64_t seed, std::int64_t prompt, std::int64_t position) {
  const auto bits =
      philox(seed, RandomUse::generation, static_cast<std::uint32_t>(prompt), static_cast<std::uint64_t>(position));
  return static_cast<double>((static_cast<std::uint64_t>(bits[0]) << 32 | bits[1]) >> 11) * 0x1p-53;
}

}  // namespace

std::int32_t TokenSampler::choose(std::span<const float> logits, std::int64_t prompt, std::int64_t position) {
  const std::int32_t best = largest(logits);
  if (rules_.temperature == 0) return best;
  ids_.resize(logits.size());
  std::iota(ids_.begin(), ids_.end(), 0);
  if (rules_.top_k > 0 || rules_.top_p < 1) keep_largest(logits);
  weights_.clear();
  const double top = logits[static_cast<std::size_t>(best)];
  for (const std::int32_t id : ids_)
    weights_.push_back(
        std::exp((static_cast<double>(logits[static_cast<std::size_t>(id)]) - top) / rules_.temperature));
  if (rules_.top_p < 1) keep_probable();
  const double draw = uniform(rules_.seed, prompt, position) * std::accumulate(weights_.begin(), weights_.end(), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    sum += weights_[i];
    if (draw < sum) return ids_[i];
  }
  return best;  // the draw equals the sum, by rounding
}

/// Sorts ids by their logits, equal ones by the id, and keeps those of top_k.
void TokenSampler::keep_largest(std::span<const float> logits) {
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto all = static_cast<std::int64_t>(ids_.size());
  const std::int64_t kept = rules_.top_k > 0 ? std::min(rules_.top_k, all) : all;
  std::partial_sort(ids_.begin(), ids_.begin() + kept, ids_.end(), before);
  ids_.resize(static_cast<std::size_t>(kept));
}

/// Keeps the first ids whose probabilities reach top_p; at least one.
void TokenSampler::keep_probable() {
  const double wanted = rules_.top_p * std::accumulate(weights_.begin(), weights_.end(), 0.0);
  std::size_t kept = 0;
  for (double sum = 0; kept < weights_.size() && (kept == 0 || sum < wanted); ++kept) sum += weights_[kept];
  ids_.resize(kept);
  weights_.resize(kept);
}

}  // namespace tessera
