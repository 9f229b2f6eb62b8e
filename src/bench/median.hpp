#pragma once
// The median and the quartiles of a few measurements.

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

/// Returns the value below which a share of the values lies, linear between them. `values` is not empty.
inline double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

}  // namespace tessera
