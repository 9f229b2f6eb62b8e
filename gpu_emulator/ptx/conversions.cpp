// cvt: between types, with the rounding that the name says.

#include <cmath>
#include <limits>

#include "gpu_emulator/fp8_codes.hpp"
#include "gpu_emulator/ptx/functions.hpp"
#include "tessera/base/dtype.hpp"

namespace ptx {

namespace {

/// Every integer to every integer is a move: the source's width counts, then the destination's.
template <class From>
void from_integer(Table& t, const std::string& from) {
  const std::string end = "." + from;
  t["cvt.u16" + end] = plain(unary<std::uint16_t, From, [](From a) { return static_cast<std::uint16_t>(a); }>);
  t["cvt.s16" + end] = plain(unary<std::int16_t, From, [](From a) { return static_cast<std::int16_t>(a); }>);
  t["cvt.u32" + end] = plain(unary<std::uint32_t, From, [](From a) { return static_cast<std::uint32_t>(a); }>);
  t["cvt.s32" + end] = plain(unary<std::int32_t, From, [](From a) { return static_cast<std::int32_t>(a); }>);
  t["cvt.u64" + end] = plain(unary<std::uint64_t, From, [](From a) { return static_cast<std::uint64_t>(a); }>);
  t["cvt.s64" + end] = plain(unary<std::int64_t, From, [](From a) { return static_cast<std::int64_t>(a); }>);
  t["cvt.rn.f32" + end] = plain(unary<float, From, [](From a) { return static_cast<float>(a); }>);
  t["cvt.rn.f64" + end] = plain(unary<double, From, [](From a) { return static_cast<double>(a); }>);
}

/// The instruction makes one NaN of all.
std::uint16_t to_bf16(float a) { return a != a ? 0x7fffu : tessera::bf16(a).bits; }
std::uint16_t to_fp16(float a) { return a != a ? 0x7fffu : tessera::fp16(a).bits; }
float from_fp16(std::uint16_t bits) {
  tessera::fp16 value;
  value.bits = bits;
  return static_cast<float>(value);
}

/// The first operand is the upper half.
template <auto To>
std::uint32_t pair(float upper, float lower) {
  return static_cast<std::uint32_t>(To(upper)) << 16 | To(lower);
}

template <tessera::Fp8 Type>
std::uint16_t pair_of_codes(float upper, float lower) {
  return static_cast<std::uint16_t>(emulator::fp8_code<Type>(upper) << 8 | emulator::fp8_code<Type>(lower));
}

}  // namespace

void add_conversions(Table& t) {
  from_integer<std::int16_t>(t, "s16"), from_integer<std::int32_t>(t, "s32"), from_integer<std::int64_t>(t, "s64");
  from_integer<std::uint16_t>(t, "u16"), from_integer<std::uint32_t>(t, "u32"), from_integer<std::uint64_t>(t, "u64");
  t["cvt.f64.f32"] = plain(unary<double, float, [](float a) { return static_cast<double>(a); }>);
  t["cvt.rn.f32.f64"] = plain(unary<float, double, [](double a) { return static_cast<float>(a); }>);
  t["cvt.rzi.f64.f64"] = plain(unary<double, double, [](double a) { return std::trunc(a); }>);
  t["cvt.sat.f32.f32"] = plain(unary<float, float, [](float a) { return (a > 0) ? (a < 1 ? a : 1.0f) : 0.0f; }>);
  t["cvt.f32.f16"] = plain(unary<float, std::uint16_t, from_fp16>);
  t["cvt.rn.f16.f32"] = plain(unary<std::uint16_t, float, to_fp16>);
  t["cvt.rn.bf16.f32"] = plain(unary<std::uint16_t, float, to_bf16>);
  t["cvt.rn.f16x2.f32"] = plain(binary<std::uint32_t, float, float, pair<to_fp16>>);
  t["cvt.rn.bf16x2.f32"] = plain(binary<std::uint32_t, float, float, pair<to_bf16>>);
  t["cvt.rn.satfinite.e4m3x2.f32"] = plain(binary<std::uint16_t, float, float, pair_of_codes<tessera::Fp8::e4m3>>);
  t["cvt.rn.satfinite.e5m2x2.f32"] = plain(binary<std::uint16_t, float, float, pair_of_codes<tessera::Fp8::e5m2>>);
}

}  // namespace ptx
