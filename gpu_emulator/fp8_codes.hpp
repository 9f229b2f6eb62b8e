#pragma once
// The codes of 8-bit floats (OCP, "8-bit Floating Point Specification"): what cvt makes and cuBLASLt reads.

#include <cmath>
#include <limits>

#include "tessera/base/fp8.hpp"

namespace emulator {

constexpr int mantissa_bits(tessera::Fp8 type) { return type == tessera::Fp8::e4m3 ? 3 : 2; }
constexpr int exponent_bias(tessera::Fp8 type) { return type == tessera::Fp8::e4m3 ? 7 : 15; }

/// Rounds to nearest even; what is too large becomes the largest number. The instruction makes one NaN of all.
template <tessera::Fp8 Type>
std::uint8_t fp8_code(float x) {
  if (x != x) return 0x7f;
  const float rounded = tessera::round_to_fp8(Type, x);
  constexpr int kBits = mantissa_bits(Type), kBias = exponent_bias(Type);
  const int sign = std::signbit(rounded) ? 0x80 : 0;
  const float magnitude = std::fabs(rounded);
  if (magnitude == 0) return static_cast<std::uint8_t>(sign);
  const int exponent = std::max(std::ilogb(magnitude) + kBias, 1);
  const int mantissa = static_cast<int>(std::ldexp(magnitude, kBits + kBias - exponent));  // with the leading one
  return static_cast<std::uint8_t>(sign | (((exponent - 1) << kBits) + mantissa));
}

inline float fp8_value(tessera::Fp8 type, std::uint8_t code) {
  const int bits = mantissa_bits(type), magnitude = code & 0x7f;
  const int exponent = magnitude >> bits, mantissa = magnitude & ((1 << bits) - 1);
  float value = std::ldexp(static_cast<float>(mantissa + (exponent > 0 ? 1 << bits : 0)),
                           std::max(exponent, 1) - exponent_bias(type) - bits);
  if (type == tessera::Fp8::e4m3 ? magnitude == 0x7f : magnitude > 0x7c)
    value = std::numeric_limits<float>::quiet_NaN();
  else if (type == tessera::Fp8::e5m2 && magnitude == 0x7c)
    value = std::numeric_limits<float>::infinity();
  return (code & 0x80) != 0 ? -value : value;
}

}  // namespace emulator
