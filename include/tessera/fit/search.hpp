#pragma once
// How runs that fit are searched: through all combinations of changes, and along an axis on which memory grows.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace tessera {

/// Calls `use` with every combination, the last dimension fastest. `choices(point, dimension)` returns the points that
/// a point may become in a dimension, itself too if it may stay. Returns false as soon as `use` does.
template <class Point, class Choices, class Use>
bool each_combination(const Point& point, std::size_t dimensions, const Choices& choices, const Use& use,
                      std::size_t dimension = 0) {
  if (dimension == dimensions) return use(point);
  return std::ranges::all_of(choices(point, dimension), [&](const Point& next) {
    return each_combination(next, dimensions, choices, use, dimension + 1);
  });
}

/// Returns the last number that fits on the way from `first`, which does, to `end`, which does not, by halving the
/// interval: there is one border.
template <class Verdict>
std::int64_t last_that_fits(std::int64_t first, std::int64_t end, const Verdict& fits) {
  while (std::abs(end - first) > 1) {
    const std::int64_t middle = std::min(first, end) + std::abs(end - first) / 2;
    (fits(middle) ? first : end) = middle;
  }
  return first;
}

}  // namespace tessera
