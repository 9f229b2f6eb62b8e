#pragma once
// The 8-bit floats: e4m3 (NVIDIA's e4m3fn, without infinities) and e5m2. On cores their values are kept in wider types,
// all of which hold them exactly; GPUs keep their codes.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "tessera/base/dtype.hpp"

namespace tessera {

enum class Fp8 : std::uint8_t { e4m3, e5m2 };
constexpr std::string_view name_of(Fp8 type) { return type == Fp8::e4m3 ? "e4m3" : "e5m2"; }
/// Returns the type of memory that holds codes.
constexpr DType dtype_of(Fp8 type) { return type == Fp8::e4m3 ? DType::e4m3 : DType::e5m2; }

/// Returns the largest finite number.
constexpr float largest_of(Fp8 type) { return type == Fp8::e4m3 ? 448.0f : 57344.0f; }

/// Rounds to the nearest number of `type`, to even in the middle. What is larger than its largest number, infinity too,
/// becomes that number. NaN stays NaN.
inline float round_to_fp8(Fp8 type, float x) {
  const float smallest_normal = type == Fp8::e4m3 ? 0x1p-6f : 0x1p-14f;
  const float fraction = type == Fp8::e4m3 ? 0x1.8p20f : 0x1.8p21f;  // 1.5 * 2^(23 - bits of mantissa)
  const float bounded = std::clamp(x, -largest_of(type), largest_of(type));
  const float magnitude = std::max(std::abs(bounded), smallest_normal);
  // The last bit of a sum with `anchor` is worth the distance between numbers of `type` near x.
  const float anchor = std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) & 0x7f800000u) * fraction;
  return std::copysign((bounded + anchor) - anchor, x);
}

}  // namespace tessera
