#include "tessera/base/dtype.hpp"

#include <array>
#include <cstddef>
#include <cstring>

namespace tessera {

std::string_view name_of(DType dtype) {
  constexpr std::array<std::string_view, 9> names{"fp32",  "bf16", "fp16", "fp64", "int32",
                                                  "int64", "byte", "e4m3", "e5m2"};
  return names[static_cast<std::size_t>(dtype)];
}

fp16::fp16(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (u >> 16) & 0x8000u;
  const std::uint32_t magnitude = u & 0x7fffffffu;
  std::uint32_t result = 0;
  if (magnitude > 0x7f800000u) {
    result = 0x7e00u;  // NaN
  } else if (magnitude >= 0x477ff000u) {
    result = 0x7c00u;                     // 65520 and above round to infinity
  } else if (magnitude >= 0x38800000u) {  // normal: rebias the exponent and round to nearest even
    const std::uint32_t rebased = magnitude - 0x38000000u;
    result = (rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13;
  } else {  // subnormal: the float adder does the rounding at the right place
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    result = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
  }
  bits = static_cast<std::uint16_t>(sign | result);
}

fp16::operator float() const {
  const std::uint32_t sign = (static_cast<std::uint32_t>(bits) & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

void convert(const void* from, DType from_type, void* to, DType to_type, std::int64_t count) {
  with_float_type(from_type, [&]<class From>() {
    with_float_type(to_type, [&]<class To>() {
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        From value;
        std::memcpy(&value, static_cast<const std::byte*>(from) + i * sizeof value, sizeof value);
        const To result(static_cast<float>(value));
        std::memcpy(static_cast<std::byte*>(to) + i * sizeof result, &result, sizeof result);
      }
    });
  });
}

}  // namespace tessera
