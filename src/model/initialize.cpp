#include "tessera/model/initialize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "tessera/base/counter_rng.hpp"

namespace tessera {

namespace {

/// Computes normal_at of elements 4 block .. 4 block + 3, with their shared work done once.
std::array<float, 4> normal_block(std::uint64_t seed, std::uint32_t stream, std::uint64_t block) {
  const auto bits = philox(seed, RandomUse::initialization, stream, block);
  std::array<float, 4> values;
  for (std::size_t pair = 0; pair < 2; ++pair) {
    const double u1 = (static_cast<double>(bits[2 * pair]) + 1.0) * 0x1p-32;
    const double u2 = static_cast<double>(bits[2 * pair + 1]) * 0x1p-32;
    const double radius = std::sqrt(-2.0 * std::log(u1));
    const double angle = 2.0 * std::numbers::pi * u2;
    values[2 * pair] = static_cast<float>(radius * std::cos(angle));
    values[2 * pair + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return values;
}

}  // namespace

void initialize_slice(const ParameterTensor& tensor, TensorId id, std::uint64_t seed, std::int64_t first_element,
                      std::span<float> out) {
  TESSERA_ASSERT(first_element >= 0 && first_element + static_cast<std::int64_t>(out.size()) <= tensor.elements,
                 "{}: elements {} to {} of {}", tensor.name, first_element,
                 first_element + static_cast<std::int64_t>(out.size()), tensor.elements);
  switch (tensor.initialization) {
    case Initialization::zero:
      std::fill(out.begin(), out.end(), 0.0f);
      return;
    case Initialization::one:
      std::fill(out.begin(), out.end(), 1.0f);
      return;
    case Initialization::normal:
      break;
  }
  const auto deviation = static_cast<float>(tensor.standard_deviation);
  const auto stream = static_cast<std::uint32_t>(id.number());
  const auto end = static_cast<std::uint64_t>(first_element) + out.size();
  auto element = static_cast<std::uint64_t>(first_element);
  float* next = out.data();
  while (element < end) {
    const std::array<float, 4> block = normal_block(seed, stream, element / 4);
    for (std::uint64_t i = element % 4; i < 4 && element < end; ++i, ++element) *next++ = deviation * block[i];
  }
}

}  // namespace tessera
