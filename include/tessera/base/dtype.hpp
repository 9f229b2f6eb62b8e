#pragma once
// Element types and the 16-bit floats, with conversions that round to nearest even: the same bits on CPU and GPU.

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "tessera/base/error.hpp"

namespace tessera {

enum class DType : std::uint8_t { fp32, bf16, fp16, fp64, int32, int64, byte };

/// Returns the bytes of one element.
constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
    case DType::int32:
      return 4;
    case DType::bf16:
    case DType::fp16:
      return 2;
    case DType::fp64:
    case DType::int64:
      return 8;
    case DType::byte:
      return 1;
  }
  return 0;
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

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::fp32;
}
template <>
constexpr DType dtype_of<bf16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<fp16>() {
  return DType::fp16;
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

}  // namespace tessera
