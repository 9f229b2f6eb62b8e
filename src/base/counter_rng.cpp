#include "tessera/base/counter_rng.hpp"

#include <Random123/philox.h>

#include <cmath>
#include <numbers>

namespace tessera {

std::array<std::uint32_t, 4> philox(std::uint64_t seed, RandomUse use, std::uint32_t stream, std::uint64_t counter) {
  r123::Philox4x32::ctr_type c{{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), stream,
                                static_cast<std::uint32_t>(use)}};
  r123::Philox4x32::key_type k{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  const auto r = r123::Philox4x32()(c, k);
  return {r[0], r[1], r[2], r[3]};
}

std::array<float, 4> normal_block(std::uint64_t seed, std::uint32_t stream, std::uint64_t block) {
  const auto bits = philox(seed, RandomUse::initialization, stream, block);
  std::array<float, 4> values;
  for (std::size_t pair = 0; pair < 2; ++pair) {
    const double u1 = (static_cast<double>(bits[2 * pair]) + 1.0) * 0x1p-32;  // (0, 1]
    const double u2 = static_cast<double>(bits[2 * pair + 1]) * 0x1p-32;
    const double radius = std::sqrt(-2.0 * std::log(u1));
    const double angle = 2.0 * std::numbers::pi * u2;
    values[2 * pair] = static_cast<float>(radius * std::cos(angle));
    values[2 * pair + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return values;
}

}  // namespace tessera
