// Numbers: sums, products, comparisons, selections, bits. Rounding is to nearest even unless the name says otherwise;
// nothing is contracted here (the compiler has written fma where it wants it).

#include <cfenv>
#include <cmath>
#include <limits>

#include "gpu_emulator/ptx/functions.hpp"

namespace ptx {

namespace {

using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// Every NaN that arithmetic makes is this one.
float quiet(float x) { return x != x ? std::bit_cast<float>(0x7fffffffu) : x; }

/// Without subnormal numbers.
float flushed(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : quiet(x); }

template <class T>
T shifted_left(T a, u32 by) {
  return by >= sizeof(T) * 8 ? T{0} : static_cast<T>(a << by);
}
template <class T>
T shifted_right(T a, u32 by) {
  constexpr u32 kWidth = sizeof(T) * 8;
  if (by >= kWidth) return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T{0};
  return static_cast<T>(a >> by);
}

/// Integer sums wrap around: they are made of unsigned numbers.
template <class S>
void integers(Table& t, const std::string& type) {
  using U = std::make_unsigned_t<S>;
  t["add." + type] = plain(binary<U, U, U, [](U a, U b) { return static_cast<U>(a + b); }>);
  t["sub." + type] = plain(binary<U, U, U, [](U a, U b) { return static_cast<U>(a - b); }>);
  t["mul.lo." + type] = plain(binary<U, U, U, [](u64 a, u64 b) { return a * b; }>);
  t["mad.lo." + type] = plain(ternary<U, U, U, U, [](u64 a, u64 b, u64 c) { return a * b + c; }>);
  t["neg." + type] = plain(unary<U, U, [](U a) { return static_cast<U>(0 - a); }>);
  t["abs." + type] = plain(unary<U, S, [](S a) { return static_cast<U>(a < 0 ? 0 - static_cast<U>(a) : a); }>);
  t["min." + type] = plain(binary<S, S, S, [](S a, S b) { return a < b ? a : b; }>);
  t["max." + type] = plain(binary<S, S, S, [](S a, S b) { return a < b ? b : a; }>);
  t["div." + type] = plain(binary<S, S, S, [](S a, S b) -> S {
    if (b == 0) return static_cast<S>(-1);
    if constexpr (std::is_signed_v<S>) {
      if (b == -1) return static_cast<S>(0 - static_cast<U>(a));
    }
    return static_cast<S>(a / b);
  }>);
  t["rem." + type] = plain(binary<S, S, S, [](S a, S b) -> S {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<S>) {
      if (b == -1) return 0;
    }
    return static_cast<S>(a % b);
  }>);
  t["shr." + type] = plain(binary<S, S, u32, shifted_right<S>>);
}

template <class T, class Wide>
void wide_products(Table& t, const std::string& type) {
  t["mul.wide." + type] =
      plain(binary<Wide, T, T, [](T a, T b) { return static_cast<Wide>(a) * static_cast<Wide>(b); }>);
  t["mul.hi." + type] = plain(binary<T, T, T, [](T a, T b) {
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> (sizeof(T) * 8));
  }>);
}

template <class U>
void bits(Table& t, const std::string& type) {
  t["and." + type] = plain(binary<U, U, U, [](U a, U b) { return a & b; }>);
  t["or." + type] = plain(binary<U, U, U, [](U a, U b) { return a | b; }>);
  t["xor." + type] = plain(binary<U, U, U, [](U a, U b) { return a ^ b; }>);
  t["not." + type] = plain(unary<U, U, [](U a) { return static_cast<U>(~a); }>);
  t["shl." + type] = plain(binary<U, U, u32, shifted_left<U>>);
  t["shr." + type] = plain(binary<U, U, u32, shifted_right<U>>);
}

void predicates(Table& t) {
  t["and.pred"] = plain(binary<u64, u64, u64, [](u64 a, u64 b) { return a & b; }>);
  t["or.pred"] = plain(binary<u64, u64, u64, [](u64 a, u64 b) { return a | b; }>);
  t["xor.pred"] = plain(binary<u64, u64, u64, [](u64 a, u64 b) { return a ^ b; }>);
  t["not.pred"] = plain(unary<u64, u64, [](u64 a) { return a ^ 1u; }>);
}

template <class T>
void comparisons(Table& t, const std::string& type) {
  t["setp.eq." + type] = plain(binary<u64, T, T, [](T a, T b) { return a == b; }>);
  t["setp.ne." + type] = plain(binary<u64, T, T, [](T a, T b) { return a < b || (a > b); }>);
  t["setp.lt." + type] = plain(binary<u64, T, T, [](T a, T b) { return a < b; }>);
  t["setp.le." + type] = plain(binary<u64, T, T, [](T a, T b) { return a <= b; }>);
  t["setp.gt." + type] = plain(binary<u64, T, T, [](T a, T b) { return (a > b); }>);
  t["setp.ge." + type] = plain(binary<u64, T, T, [](T a, T b) { return a >= b; }>);
  if constexpr (std::is_floating_point_v<T>) {  // true as well where one of them is NaN
    t["setp.equ." + type] = plain(binary<u64, T, T, [](T a, T b) { return !((a < b) || (a > b)); }>);
    t["setp.neu." + type] = plain(binary<u64, T, T, [](T a, T b) { return !(a == b); }>);
    t["setp.ltu." + type] = plain(binary<u64, T, T, [](T a, T b) { return !(a >= b); }>);
    t["setp.leu." + type] = plain(binary<u64, T, T, [](T a, T b) { return !(a > b); }>);
    t["setp.gtu." + type] = plain(binary<u64, T, T, [](T a, T b) { return !(a <= b); }>);
    t["setp.geu." + type] = plain(binary<u64, T, T, [](T a, T b) { return !(a < b); }>);
    t["setp.num." + type] = plain(binary<u64, T, T, [](T a, T b) { return a == a && b == b; }>);
    t["setp.nan." + type] = plain(binary<u64, T, T, [](T a, T b) { return a != a || b != b; }>);
  }
}

template <class T>
T rounded_down_fma(T a, T b, T c) {
  const int before = std::fegetround();
  std::fesetround(FE_DOWNWARD);
  const T result = std::fma(a, b, c);
  std::fesetround(before);
  return result;
}

template <class T>
void floats(Table& t, const std::string& type) {
  for (const std::string& mode : {std::string(), std::string("rn.")}) {
    t["add." + mode + type] = plain(binary<T, T, T, [](T a, T b) { return a + b; }>);
    t["sub." + mode + type] = plain(binary<T, T, T, [](T a, T b) { return a - b; }>);
    t["mul." + mode + type] = plain(binary<T, T, T, [](T a, T b) { return a * b; }>);
  }
  t["fma.rn." + type] = plain(ternary<T, T, T, T, [](T a, T b, T c) { return std::fma(a, b, c); }>);
  t["fma.rm." + type] = plain(ternary<T, T, T, T, rounded_down_fma<T>>);
  t["div.rn." + type] = plain(binary<T, T, T, [](T a, T b) { return a / b; }>);
  t["rcp.rn." + type] = plain(unary<T, T, [](T a) { return T{1} / a; }>);
  t["sqrt.rn." + type] = plain(unary<T, T, [](T a) { return std::sqrt(a); }>);
  t["neg." + type] = plain(unary<T, T, [](T a) { return -a; }>);
  t["abs." + type] = plain(unary<T, T, [](T a) { return std::fabs(a); }>);
  t["min." + type] = plain(binary<T, T, T, [](T a, T b) { return std::fmin(a, b); }>);
  t["max." + type] = plain(binary<T, T, T, [](T a, T b) { return std::fmax(a, b); }>);
}

void special_functions(Table& t) {
  t["max.NaN.f32"] = plain(binary<float, float, float, [](float a, float b) {
    return a != a || b != b ? quiet(std::numeric_limits<float>::quiet_NaN()) : std::fmax(a, b);
  }>);
  t["ex2.approx.ftz.f32"] = plain(unary<float, float, [](float a) { return flushed(std::exp2(flushed(a))); }>);
  t["rcp.approx.ftz.f32"] = plain(unary<float, float, [](float a) { return flushed(1.0f / flushed(a)); }>);
  // The upper half of 1 / a: a first guess for Newton's steps.
  t["rcp.approx.ftz.f64"] =
      plain(unary<u64, double, [](double a) { return std::bit_cast<u64>(1.0 / a) & 0xffffffff00000000u; }>);
}

template <class U>
void selections(Table& t, const std::string& type) {
  t["selp." + type] = plain(ternary<U, U, U, u64, [](U a, U b, u64 p) { return (p & 1u) != 0 ? a : b; }>);
  t["mov." + type] = plain(unary<U, U, [](U a) { return a; }>);
}

/// bfi d, field, into, start, length
template <class U>
void insert_bits(Warp& w, const Instruction& i, Mask lanes) {
  each(lanes, [&](int lane) {
    const auto value = [&](std::size_t n) { return w.row(i.from[n])[static_cast<std::size_t>(lane)]; };
    const u64 start = value(2) & 0xffu, length = value(3) & 0xffu;
    u64 field = length >= 64 ? ~u64{0} : (u64{1} << length) - 1;
    field = start >= 64 ? 0 : field << start;
    const u64 bits = start >= 64 ? 0 : value(0) << start;
    set<U>(w.row(i.to[0]), lane, static_cast<U>((bits & field) | (value(1) & ~field)));
  });
}

u32 permuted(u32 a, u32 b, u32 selection) {
  const u64 bytes = a | static_cast<u64>(b) << 32;
  u32 result = 0;
  for (u32 i = 0; i < 4; ++i) {
    const u32 which = selection >> (4 * i) & 0xfu;
    u32 byte = static_cast<u32>(bytes >> (8 * (which & 7u))) & 0xffu;
    if ((which & 8u) != 0) byte = (byte & 0x80u) != 0 ? 0xffu : 0u;
    result |= byte << (8 * i);
  }
  return result;
}

u32 reversed(u32 a) {
  u32 result = 0;
  for (int i = 0; i < 32; ++i) result |= (a >> i & 1u) << (31 - i);
  return result;
}

void bit_fields(Table& t) {
  t["bfi.b32"] = plain(insert_bits<u32>);
  t["bfi.b64"] = plain(insert_bits<u64>);
  t["prmt.b32"] = plain(ternary<u32, u32, u32, u32, permuted>);
  t["popc.b32"] = plain(unary<u32, u32, [](u32 a) { return std::popcount(a); }>);
  t["brev.b32"] = plain(unary<u32, u32, reversed>);
  // How far to shift left until the first one is at the top; all ones for 0.
  t["bfind.shiftamt.u32"] =
      plain(unary<u32, u32, [](u32 a) { return a == 0 ? 0xffffffffu : static_cast<u32>(std::countl_zero(a)); }>);
}

void put_together(Warp& w, const Instruction& i, Mask lanes) {
  each(lanes, [&](int lane) {
    u64 bits = 0;
    const u64 low = (u64{1} << i.offset[1]) - 1;
    for (int piece = 0; piece < i.offset[0]; ++piece) {
      bits |= (w.row(i.from[static_cast<std::size_t>(piece)])[static_cast<std::size_t>(lane)] & low)
              << (piece * i.offset[1]);
    }
    set<u64>(w.row(i.to[0]), lane, bits);
  });
}

void take_apart(Warp& w, const Instruction& i, Mask lanes) {
  each(lanes, [&](int lane) {
    const u64 bits = w.row(i.from[0])[static_cast<std::size_t>(lane)];
    const u64 low = (u64{1} << i.offset[1]) - 1;
    for (int piece = 0; piece < i.offset[0]; ++piece) {
      set<u64>(w.row(i.to[static_cast<std::size_t>(piece)]), lane, bits >> (piece * i.offset[1]) & low);
    }
  });
}

}  // namespace

void add_arithmetic(Table& t) {
  integers<i16>(t, "s16"), integers<i32>(t, "s32"), integers<i64>(t, "s64");
  integers<u16>(t, "u16"), integers<u32>(t, "u32"), integers<u64>(t, "u64");
  wide_products<u16, u32>(t, "u16"), wide_products<i16, i32>(t, "s16");
  wide_products<u32, u64>(t, "u32"), wide_products<i32, i64>(t, "s32");
  bits<u16>(t, "b16"), bits<u32>(t, "b32"), bits<u64>(t, "b64");
  predicates(t);
  comparisons<i16>(t, "s16"), comparisons<i32>(t, "s32"), comparisons<i64>(t, "s64");
  comparisons<u16>(t, "u16"), comparisons<u32>(t, "u32"), comparisons<u64>(t, "u64");
  comparisons<u16>(t, "b16"), comparisons<u32>(t, "b32"), comparisons<u64>(t, "b64");
  comparisons<float>(t, "f32"), comparisons<double>(t, "f64");
  floats<float>(t, "f32"), floats<double>(t, "f64");
  special_functions(t);
  for (const char* type : {"b16", "u16", "s16"}) selections<u16>(t, type);
  for (const char* type : {"b32", "u32", "s32", "f32"}) selections<u32>(t, type);
  for (const char* type : {"b64", "u64", "s64", "f64", "pred"}) selections<u64>(t, type);
  bit_fields(t);
  t["mov.together"] = plain(put_together);
  t["mov.apart"] = plain(take_apart);
}

}  // namespace ptx
