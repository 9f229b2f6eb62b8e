#pragma once
// Element types and the 16-bit floats, with conversions that round to nearest even: the same bits on CPU and GPU.

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "tessera/base/error.hpp"

namespace tessera {

enum class DType : std::uint8_t { fp32, bf16, fp16, fp64, int32, int64, byte, e4m3, e5m2 };

/// Returns the bytes of one element.
constexpr std::int64_t size_of(DType dtype) {
  constexpr std::int64_t bytes[] = {4, 2, 2, 8, 4, 8, 1, 1, 1};  // in the order of DType
  return bytes[static_cast<std::size_t>(dtype)];
}

/// Returns the name as options and files spell it: "fp32", "bf16", ...
std::string_view name_of(DType dtype);

/// bfloat16: the upper half of a float. NaN stays NaN (quiet).
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<std::uint16_t>((u >> 16) | 0x40u);
    } else {
      bits = static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

/// IEEE binary16; overflow becomes infinity, as the hardware does.
struct fp16 {
  std::uint16_t bits = 0;
  fp16() = default;
  explicit fp16(float value);
  explicit operator float() const;
};

/// Returns the dtype of float, bf16 or fp16.
template <class T>
constexpr DType dtype_of() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, bf16> || std::is_same_v<T, fp16>);
  return std::is_same_v<T, float> ? DType::fp32 : std::is_same_v<T, bf16> ? DType::bf16 : DType::fp16;
}

/// Calls f.template operator()<T>() with the C++ type of a floating dtype of tensors (fp32, bf16, fp16).
template <class F>
decltype(auto) with_float_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::fp32:
      return f.template operator()<float>();
    case DType::bf16:
      return f.template operator()<bf16>();
    case DType::fp16:
      return f.template operator()<fp16>();
    default:
      throw InternalError("no floating tensor type for dtype {}", name_of(dtype));
  }
}

/// Converts `count` numbers of fp32, bf16 or fp16, rounding to nearest even. Addresses need not be aligned.
void convert(const void* from, DType from_type, void* to, DType to_type, std::int64_t count);

}  // namespace tessera
