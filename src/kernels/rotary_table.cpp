#include "tessera/kernels/rotary_table.hpp"

#include <cmath>
#include <numbers>

namespace tessera {

namespace {

/// Scales a frequency: by 1/factor for long waves, not for short ones, by a mixture between them.
double scaled_frequency(double frequency, const RopeScaling& s) {
  if (s.is_linear()) return frequency / s.factor;
  const double waves = static_cast<double>(s.original_context) * frequency / (2 * std::numbers::pi);
  if (waves < s.low_freq_factor) return frequency / s.factor;
  if (waves > s.high_freq_factor) return frequency;
  const double kept = (waves - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - kept) * frequency / s.factor + kept * frequency;
}

}  // namespace

std::vector<float> rotary_values(const RotaryTable& c, std::int64_t positions) {
  const std::int64_t half = c.width / 2;
  std::vector<double> frequency;
  for (std::int64_t i = 0; i < half; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(c.width);
    frequency.push_back(scaled_frequency(std::pow(c.theta, -exponent), c.scaling));
  }
  std::vector<float> table;
  table.reserve(static_cast<std::size_t>(positions * half * 2));
  for (std::int64_t position = 0; position < positions; ++position) {
    for (const double f : frequency) {
      table.push_back(static_cast<float>(c.scale * std::cos(static_cast<double>(position) * f)));
      table.push_back(static_cast<float>(c.scale * std::sin(static_cast<double>(position) * f)));
    }
  }
  return table;
}

}  // namespace tessera
