#pragma once
// Quantiles of a few numbers.

#include <algorithm>
#include <utility>
#include <vector>

namespace tessera {

/// Returns the value below which a share of the values lies, linear between them. `values` is not empty.
inline double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

/// Returns the median; for an even number of values, the mean of the middle two. `values` is not empty.
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

}  // namespace tessera
