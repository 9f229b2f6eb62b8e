#include "tessera/training/recent_spread.hpp"

#include <algorithm>
#include <vector>

#include "tessera/base/quantile.hpp"

namespace tessera {

double RecentSpread::distance(double value) {
  constexpr double kNormal = 1.4826, kLeast = 0.01;
  const double logarithm = std::log(value);
  if (!std::isfinite(logarithm)) return 0;
  double deviations = 0;
  if (taken_ >= kSteps) {
    std::vector<double> distances(logarithms_.begin(), logarithms_.end());
    median_ = tessera::median(distances);
    for (double& each : distances) each = std::abs(each - median_);
    deviations = std::abs(logarithm - median_) / std::max(kNormal * tessera::median(std::move(distances)), kLeast);
  }
  logarithms_[static_cast<std::size_t>(taken_++ % kSteps)] = logarithm;
  return deviations;
}

}  // namespace tessera
