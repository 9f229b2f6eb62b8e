#include "tessera/training/recent_spread.hpp"

#include <algorithm>

namespace tessera {

namespace {

double median_of(std::array<double, RecentSpread::kSteps> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

double RecentSpread::distance(double value) {
  constexpr double kNormal = 1.4826, kLeast = 0.01;
  const double logarithm = std::log(value);
  if (!std::isfinite(logarithm)) return 0;
  double deviations = 0;
  if (taken_ >= kSteps) {
    median_ = median_of(logarithms_);
    std::array<double, kSteps> distances = logarithms_;
    for (double& each : distances) each = std::abs(each - median_);
    deviations = std::abs(logarithm - median_) / std::max(kNormal * median_of(distances), kLeast);
  }
  logarithms_[static_cast<std::size_t>(taken_++ % kSteps)] = logarithm;
  return deviations;
}

}  // namespace tessera
