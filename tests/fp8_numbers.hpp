#pragma once
// The numbers of the 8-bit floats by the definition of their codes.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tessera/base/fp8.hpp"

namespace tessera::testing {

/// The finite numbers that are not negative, in the order of their codes. Behind them: NaN; infinity and NaN.
inline std::vector<double> fp8_numbers(Fp8 type) {
  const int mantissa_bits = type == Fp8::e4m3 ? 3 : 2, bias = type == Fp8::e4m3 ? 7 : 15;
  const int last = type == Fp8::e4m3 ? 0x7e : 0x7b;
  std::vector<double> numbers;
  for (int code = 0; code <= last; ++code) {
    const int exponent = code >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
    const int leading = exponent > 0 ? 1 << mantissa_bits : 0;
    numbers.push_back(std::ldexp(leading + mantissa, std::max(exponent, 1) - bias - mantissa_bits));
  }
  return numbers;
}

inline std::vector<double> fp8_values(Fp8 type, const std::uint8_t* codes, std::size_t count) {
  const std::vector<double> numbers = fp8_numbers(type);
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t magnitude = codes[i] & 0x7fu;
    const double value = magnitude < numbers.size() ? numbers[magnitude] : std::numeric_limits<double>::quiet_NaN();
    values.push_back((codes[i] & 0x80u) != 0 ? -value : value);
  }
  return values;
}

}  // namespace tessera::testing
