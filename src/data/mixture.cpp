#include "tessera/data/mixture.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tessera/base/error.hpp"

namespace tessera {

namespace {

__extension__ typedef unsigned __int128 Wide;

/// Returns floor(n * share / 2^64), exactly.
std::uint64_t part_of(std::uint64_t n, std::uint64_t share) {
  return static_cast<std::uint64_t>((static_cast<Wide>(n) * share) >> 64);
}

}  // namespace

Mixture::Mixture(const std::vector<double>& weights) : left_(weights.size()) {
  TESSERA_ASSERT(!weights.empty(), "a mixture has sources");
  split(weights, 0, weights.size());
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
  return descend(sample, [&](std::size_t mid, std::uint64_t n, std::uint64_t before) {
    return part_of(n + 1, left_[mid]) > before;
  });
}

std::int64_t Mixture::count(std::size_t source, std::int64_t samples) const {
  return descend(samples, [&](std::size_t mid, auto, auto) { return source < mid; }).index;
}

}  // namespace tessera
