#include "tessera/data/mixture.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera {

namespace {

__extension__ typedef unsigned __int128 Wide;

/// Returns floor(n * share / 2^64), exactly.
std::uint64_t part_of(std::uint64_t n, std::uint64_t share) {
  return static_cast<std::uint64_t>((static_cast<Wide>(n) * share) >> 64);
}

}  // namespace

/// What has been drawn so far, in order. Calls may come from several threads.
class Mixture::ByTokens {
 public:
  ByTokens(std::vector<std::uint64_t> left, SampleTokens tokens)
      : left_(std::move(left)), tokens_of_(std::move(tokens)), counts_(left_.size()), tokens_(left_.size()) {
    TESSERA_ASSERT(left_.size() <= std::numeric_limits<std::uint16_t>::max(), "{} sources", left_.size());
    for (std::size_t source = 0; source < left_.size(); ++source) next_.push_back(tokens_of_(source, 0));
  }
  std::size_t source_of(std::int64_t sample) {
    const std::lock_guard lock(mutex_);
    draw_up_to(sample + 1);
    return drawn_[static_cast<std::size_t>(sample)];
  }
  std::int64_t count(std::size_t source, std::int64_t samples) {
    const std::lock_guard lock(mutex_);
    draw_up_to(samples);
    const std::int64_t stretch = samples / kStretch;
    const std::int64_t before = before_[static_cast<std::size_t>(stretch) * left_.size() + source];
    return before + std::count(drawn_.begin() + stretch * kStretch, drawn_.begin() + samples, source);
  }

 private:
  static constexpr std::int64_t kStretch = 256;

  void draw_up_to(std::int64_t samples) {
    if (before_.empty()) before_ = counts_;
    while (std::ssize(drawn_) < samples) {
      const std::size_t source = choose(0, left_.size());
      drawn_.push_back(static_cast<std::uint16_t>(source));
      tokens_[source] += next_[source];
      next_[source] = tokens_of_(source, ++counts_[source]);
      if (std::ssize(drawn_) % kStretch == 0) before_.insert(before_.end(), counts_.begin(), counts_.end());
    }
  }
  /// Returns which of the sources [first, end) has their next sample.
  std::size_t choose(std::size_t first, std::size_t end) const {
    if (end - first == 1) return first;
    const std::size_t mid = middle(first, end), source = choose(first, mid);
    const auto tokens = [&](std::size_t from, std::size_t to) {
      return static_cast<Wide>(std::accumulate(tokens_.begin() + static_cast<std::ptrdiff_t>(from),
                                               tokens_.begin() + static_cast<std::ptrdiff_t>(to), next_[source]));
    };
    return tokens(first, mid) << 64 <= tokens(first, end) * left_[mid] ? source : choose(mid, end);
  }

  std::vector<std::uint64_t> left_;
  SampleTokens tokens_of_;
  std::mutex mutex_;
  std::vector<std::int64_t> counts_, tokens_, next_;  ///< by source: drawn, and the next sample's tokens
  std::vector<std::uint16_t> drawn_;                  ///< the source of each sample
  std::vector<std::int64_t> before_;                  ///< [stretches, sources]: samples in front of it
};

Mixture::Mixture(const std::vector<double>& weights, SampleTokens tokens) : left_(weights.size()) {
  TESSERA_ASSERT(!weights.empty(), "a mixture has sources");
  split(weights, 0, weights.size());
  if (tokens) by_tokens_ = std::make_shared<ByTokens>(left_, std::move(tokens));
}

void Mixture::split(const std::vector<double>& weights, std::size_t first, std::size_t end) {
  if (end - first < 2) return;
  const std::size_t mid = middle(first, end);
  const auto sum = [&](std::size_t from, std::size_t to) {
    return std::accumulate(weights.begin() + static_cast<std::ptrdiff_t>(from),
                           weights.begin() + static_cast<std::ptrdiff_t>(to), 0.0);
  };
  const double left = sum(first, mid), whole = left + sum(mid, end);
  constexpr double most = 1 - std::numeric_limits<double>::epsilon();
  // Halves that both weigh nothing are never drawn.
  left_[mid] = static_cast<std::uint64_t>(std::ldexp(whole > 0 ? std::min(left / whole, most) : 0.5, 64));
  split(weights, first, mid);
  split(weights, mid, end);
}

template <class GoesLeft>
Mixture::Draw Mixture::descend(std::int64_t samples, const GoesLeft& goes_left) const {
  TESSERA_ASSERT(samples >= 0, "sample {}", samples);
  auto n = static_cast<std::uint64_t>(samples);
  std::size_t first = 0, end = left_.size();
  while (end - first > 1) {
    const std::size_t mid = middle(first, end);
    const std::uint64_t before = part_of(n, left_[mid]);
    if (goes_left(mid, n, before)) {
      n = before, end = mid;
    } else {
      n -= before, first = mid;
    }
  }
  return {first, static_cast<std::int64_t>(n)};
}

Mixture::Draw Mixture::operator()(std::int64_t sample) const {
  if (by_tokens_) {
    const std::size_t source = by_tokens_->source_of(sample);
    return {source, by_tokens_->count(source, sample)};
  }
  return descend(sample, [&](std::size_t mid, std::uint64_t n, std::uint64_t before) {
    return part_of(n + 1, left_[mid]) > before;
  });
}

std::int64_t Mixture::count(std::size_t source, std::int64_t samples) const {
  if (by_tokens_) return by_tokens_->count(source, samples);
  return descend(samples, [&](std::size_t mid, auto, auto) { return source < mid; }).index;
}

}  // namespace tessera
