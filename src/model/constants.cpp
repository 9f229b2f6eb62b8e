#include <cmath>
#include <numbers>

#include "tessera/base/error.hpp"
#include "tessera/model/initialize.hpp"

namespace tessera {

namespace {

/// Scales a frequency: by 1/factor for long waves, not for short ones, by a mixture between them.
double scaled_frequency(double frequency, const RopeScaling& s) {
  if (!s.on()) return frequency;
  const double waves = static_cast<double>(s.original_context) * frequency / (2 * std::numbers::pi);
  if (waves < s.low_freq_factor) return frequency / s.factor;
  if (waves > s.high_freq_factor) return frequency;
  const double kept = (waves - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - kept) * frequency / s.factor + kept * frequency;
}

std::vector<float> rotary_table(const ModelParts& model, std::int64_t positions) {
  const Architecture& a = model.architecture;
  const std::int64_t half = a.head_width() / 2;
  std::vector<double> frequency;
  for (std::int64_t i = 0; i < half; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(a.head_width());
    frequency.push_back(scaled_frequency(std::pow(a.rope_theta, -exponent), a.rope_scaling));
  }
  std::vector<float> table;
  table.reserve(static_cast<std::size_t>(positions * half * 2));
  for (std::int64_t position = 0; position < positions; ++position) {
    for (const double f : frequency) {
      table.push_back(static_cast<float>(std::cos(static_cast<double>(position) * f)));
      table.push_back(static_cast<float>(std::sin(static_cast<double>(position) * f)));
    }
  }
  return table;
}

}  // namespace

std::vector<float> constant_values(const ModelParts& model, std::int32_t number) {
  const ConstantTensor& constant = model.constants.at(static_cast<std::size_t>(number));
  TESSERA_ASSERT(constant.name == "rotary", "nobody knows the values of constant {}", constant.name);
  std::vector<float> values = rotary_table(model, constant.elements / model.architecture.head_width());
  TESSERA_ASSERT(static_cast<std::int64_t>(values.size()) == constant.elements, "{}: {} elements made, {} declared",
                 constant.name, values.size(), constant.elements);
  return values;
}

}  // namespace tessera
