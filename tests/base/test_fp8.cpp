#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "fp8_numbers.hpp"
#include "tessera/base/dtype.hpp"
#include "tessera/base/fp8.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// The nearest number by search, that of the even code in the middle.
double nearest(const std::vector<double>& numbers, double x) {
  const auto above = std::ranges::lower_bound(numbers, std::abs(x));
  if (above == numbers.end()) return std::copysign(numbers.back(), x);
  if (above == numbers.begin()) return std::copysign(*above, x);
  const double up = *above - std::abs(x), down = std::abs(x) - *(above - 1);
  const bool goes_up = up < down || (up == down && (above - numbers.begin()) % 2 == 0);
  return std::copysign(goes_up ? *above : *(above - 1), x);
}

}  // namespace

TEST_CASE("numbers of 8 bits are what their codes say, and stay what they are") {
  for (const Fp8 type : {Fp8::e4m3, Fp8::e5m2}) {
    const std::vector<double> numbers = fp8_numbers(type);
    CHECK(numbers.back() == largest_of(type));
    for (const double x : numbers) {
      for (const auto number : {static_cast<float>(x), -static_cast<float>(x)}) {
        const float rounded = round_to_fp8(type, number);
        REQUIRE(std::bit_cast<std::uint32_t>(rounded) == std::bit_cast<std::uint32_t>(number));
        REQUIRE(static_cast<float>(fp16(rounded)) == rounded);  // every 16-bit type holds it
        REQUIRE(static_cast<float>(bf16(rounded)) == rounded);
      }
    }
  }
}

TEST_CASE("rounding to 8 bits is to the nearest, to even in the middle, and saturates") {
  for (const Fp8 type : {Fp8::e4m3, Fp8::e5m2}) {
    const std::vector<double> numbers = fp8_numbers(type);
    const auto check = [&](float x) { REQUIRE(round_to_fp8(type, x) == nearest(numbers, x)); };
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {  // all of bf16
      const auto x = std::bit_cast<float>(bits << 16);
      if (!std::isnan(x)) check(x);
    }
    for (std::size_t i = 1; i < numbers.size(); ++i) {
      const auto middle = static_cast<float>((numbers[i - 1] + numbers[i]) / 2);
      for (const float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) check(x), check(-x);
    }
    CHECK(std::isnan(round_to_fp8(type, std::numeric_limits<float>::quiet_NaN())));
  }
}
