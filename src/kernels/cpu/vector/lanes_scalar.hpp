// 16 lanes in plain C++: the portable vector, and the meaning of the others. Included by vector_scalar.cpp only.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "tessera/base/dtype.hpp"

namespace tessera {
namespace {

using StoredBf16 = bf16;
using StoredFp16 = fp16;

/// All 16 lanes, or the first n of them: loads fill the rest with zeros, stores leave it alone.
struct Full {};
struct Part {
  int n;
};

struct F16 {
  float v[16];
};
struct D16 {
  double v[16];
};

template <class F>
inline F16 each_lane(F f) {
  F16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = f(i);
  return r;
}

inline F16 set(float x) {
  return each_lane([&](int) { return x; });
}
inline F16 operator+(const F16& x, const F16& y) {
  return each_lane([&](int i) { return x.v[i] + y.v[i]; });
}
inline F16 operator-(const F16& x, const F16& y) {
  return each_lane([&](int i) { return x.v[i] - y.v[i]; });
}
inline F16 operator*(const F16& x, const F16& y) {
  return each_lane([&](int i) { return x.v[i] * y.v[i]; });
}
inline F16 operator/(const F16& x, const F16& y) {
  return each_lane([&](int i) { return x.v[i] / y.v[i]; });
}
inline F16 fma(const F16& x, const F16& y, const F16& z) {
  return each_lane([&](int i) { return std::fma(x.v[i], y.v[i], z.v[i]); });
}
inline F16 square_root(const F16& x) {
  return each_lane([&](int i) { return std::sqrt(x.v[i]); });
}
/// Behaves as the machine instructions: the second operand where either is NaN.
inline F16 maximum(const F16& x, const F16& y) {
  return each_lane([&](int i) { return x.v[i] > y.v[i] ? x.v[i] : y.v[i]; });
}
inline F16 minimum(const F16& x, const F16& y) {
  return each_lane([&](int i) { return x.v[i] < y.v[i] ? x.v[i] : y.v[i]; });
}
/// Returns `value`, but 0 where x < limit.
inline F16 zero_below(const F16& x, float limit, const F16& value) {
  return each_lane([&](int i) { return x.v[i] < limit ? 0.0f : value.v[i]; });
}
/// Returns x * 2^k, where `shifted` is k + 1.5 * 2^23: the low bits of its pattern are k.
inline F16 times_power_of_two(const F16& x, const F16& shifted) {
  return each_lane([&](int i) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x.v[i]) +
                                (std::bit_cast<std::uint32_t>(shifted.v[i]) << 23));
  });
}

/// Sums by the one tree of all sums: lanes i and i + 8 first, then distances 4, 2 and 1.
inline float lanes_sum(F16 x) {
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) x.v[i] += x.v[i + half];
  }
  return x.v[0];
}
inline float lanes_maximum(F16 x) {
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) x.v[i] = x.v[i] > x.v[i + half] ? x.v[i] : x.v[i + half];
  }
  return x.v[0];
}

inline D16 zero_doubles() { return D16{}; }
/// A float's square is exact in double, so a fused and a separate addition agree.
inline void add_squares(D16& sum, const F16& x) {
  for (int i = 0; i < 16; ++i) sum.v[i] += static_cast<double>(x.v[i]) * static_cast<double>(x.v[i]);
}
inline double lanes_sum(D16 x) {
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) x.v[i] += x.v[i + half];
  }
  return x.v[0];
}

template <class T>
inline F16 load(const T* p, Full) {
  return each_lane([&](int i) { return static_cast<float>(p[i]); });
}
template <class T>
inline F16 load(const T* p, Part part) {
  return each_lane([&](int i) { return i < part.n ? static_cast<float>(p[i]) : 0.0f; });
}
template <class T>
inline void store(T* p, const F16& x, Full) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<T>(x.v[i]);
}
template <class T>
inline void store(T* p, const F16& x, Part part) {
  for (int i = 0; i < part.n; ++i) p[i] = static_cast<T>(x.v[i]);
}

/// Returns x as it reads after being stored in T.
template <class T>
inline F16 rounded(const T*, const F16& x) {
  return each_lane([&](int i) { return static_cast<float>(static_cast<T>(x.v[i])); });
}

/// Replaces lanes from part.n on by `value`.
inline F16 fill_after(const F16& x, float, Full) { return x; }
inline F16 fill_after(const F16& x, float value, Part part) {
  return each_lane([&](int i) { return i < part.n ? x.v[i] : value; });
}

}  // namespace
}  // namespace tessera
