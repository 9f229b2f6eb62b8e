#pragma once
// The median of a few measurements.

#include <algorithm>
#include <vector>

namespace tessera {

/// Returns the median; for an even number of values, the mean of the middle two. `values` is not empty.
inline double median(std::vector<double> values) {
  const std::size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half), values.end());
  if (values.size() % 2 == 1) return values[half];
  return 0.5 * (values[half] + *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half)));
}

}  // namespace tessera
