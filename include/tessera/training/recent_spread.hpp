#pragma once
// Whether a positive number lies far outside what it was in recent steps.

#include <array>
#include <cmath>
#include <cstdint>

namespace tessera {

/// Robust, so that one odd step widens nothing: of the logarithms of the last kSteps values it takes the median, and as
/// the deviation 1.4826 times the median distance from it (that of a normal distribution), at least 1%.
class RecentSpread {
 public:
  static constexpr std::int64_t kSteps = 64;
  static constexpr double kFar = 10;  ///< deviations; a loss or gradient norm of usual training stays within 5

  /// Takes in a value, and returns how many deviations it lies from those before it; 0 while these are fewer than
  /// kSteps, and for a value that has no finite logarithm, which is not taken in.
  double distance(double value);
  /// Returns the median that the last value was compared with.
  double median() const { return std::exp(median_); }

 private:
  std::array<double, kSteps> logarithms_{};  ///< a ring
  std::int64_t taken_ = 0;
  double median_ = std::nan("");
};

}  // namespace tessera
