#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "tessera/base/dtype.hpp"
#include "tessera/kernels/state_rounding.hpp"

using namespace tessera;

namespace {

float rounded(float x, std::uint32_t random) {
  return std::bit_cast<float>(rounded_at_random(std::bit_cast<std::uint32_t>(x), random));
}

}  // namespace

TEST_CASE("the mean of all random roundings is the number itself, and each is one of its neighbours") {
  std::mt19937 generator(5);
  for (std::uint32_t drawn = 0; drawn < 40; ++drawn) {
    const auto exponent = static_cast<int>(generator() % 240) - 130;  // subnormal ones too
    const auto x = static_cast<float>(std::ldexp(static_cast<double>(generator()) - 0x1p31, exponent - 31));
    const auto lower = rounded(x, 0);
    double sum = 0;  // exact
    bool near = true;
    for (std::uint32_t random = 0; random < 0x10000; ++random) {
      const float y = rounded(x, random | drawn << 16);
      near = near && static_cast<float>(bf16(y)) == y && std::abs(y - lower) <= std::abs(lower) * 0x1p-7f + 0x1p-133f;
      sum += static_cast<double>(y);
    }
    INFO(x);
    CHECK(sum / 0x10000 == static_cast<double>(x));
    CHECK(near);
  }
}

TEST_CASE("random rounding leaves numbers of bf16 alone, and NaN and infinity too") {
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    const float x = std::bit_cast<float>(high << 16);
    for (const std::uint32_t random : {0u, 1u, 0x8000u, 0xffffu, 0xffffffffu}) {
      const bool same = std::isnan(x) ? std::isnan(rounded(x, random))
                                      : std::bit_cast<std::uint32_t>(rounded(x, random)) == high << 16;
      if (!same) FAIL(high << " by " << random);
    }
  }
  CHECK(std::isnan(rounded(std::bit_cast<float>(0x7f800001u), 0xffff)));
  CHECK(std::isnan(rounded(std::bit_cast<float>(0xffffffffu), 0xffff)));
}
