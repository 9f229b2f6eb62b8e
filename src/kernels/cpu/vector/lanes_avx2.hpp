// 16 lanes in two AVX2 registers. Included by vector_avx2.cpp only (see lanes_scalar.hpp for what each function means).
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace tessera {
namespace {

struct StoredBf16 {
  std::uint16_t bits;
};
struct StoredFp16 {
  std::uint16_t bits;
};

struct Full {};
struct Part {
  int n;
};

struct F16 {
  __m256 a, b;
};
struct D16 {
  __m256d v[4];
};

inline F16 set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline F16 operator+(F16 x, F16 y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
inline F16 operator-(F16 x, F16 y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
inline F16 operator*(F16 x, F16 y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
inline F16 operator/(F16 x, F16 y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
inline F16 fma(F16 x, F16 y, F16 z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
inline F16 square_root(F16 x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
inline F16 maximum(F16 x, F16 y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
inline F16 minimum(F16 x, F16 y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
inline F16 zero_below(F16 x, float limit, F16 value) {
  const __m256 l = _mm256_set1_ps(limit);
  return {_mm256_and_ps(_mm256_cmp_ps(x.a, l, _CMP_NLT_UQ), value.a),
          _mm256_and_ps(_mm256_cmp_ps(x.b, l, _CMP_NLT_UQ), value.b)};
}
inline __m256 times_power_of_two(__m256 x, __m256 shifted) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), exponent));
}
inline F16 times_power_of_two(F16 x, F16 shifted) {
  return {times_power_of_two(x.a, shifted.a), times_power_of_two(x.b, shifted.b)};
}

inline float lanes_sum(F16 x) {
  const __m256 eight = _mm256_add_ps(x.a, x.b);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float lanes_maximum(F16 x) {
  const __m256 eight = _mm256_max_ps(x.a, x.b);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

inline D16 zero_doubles() {
  return {{_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()}};
}
inline void add_squares(D16& sum, F16 x) {
  const __m128 quarter[4] = {_mm256_castps256_ps128(x.a), _mm256_extractf128_ps(x.a, 1), _mm256_castps256_ps128(x.b),
                             _mm256_extractf128_ps(x.b, 1)};
  for (int i = 0; i < 4; ++i) {
    const __m256d d = _mm256_cvtps_pd(quarter[i]);
    sum.v[i] = _mm256_fmadd_pd(d, d, sum.v[i]);
  }
}
inline double lanes_sum(const D16& x) {
  const __m256d four = _mm256_add_pd(_mm256_add_pd(x.v[0], x.v[2]), _mm256_add_pd(x.v[1], x.v[3]));
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

inline __m256 widen_bf16(__m128i bits) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline __m128i narrow_bf16(__m256 x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(0x40));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const __m256i chosen = _mm256_blendv_epi8(rounded, quiet, nan);
  return _mm_packus_epi32(_mm256_castsi256_si128(chosen), _mm256_extracti128_si256(chosen, 1));
}
inline __m128i narrow_fp16(__m256 x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i quiet = _mm256_or_si256(_mm256_and_si256(u, _mm256_set1_epi32(static_cast<int>(0x80000000u))),
                                        _mm256_set1_epi32(0x7fc00000));
  const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  return _mm256_cvtps_ph(_mm256_blendv_ps(x, _mm256_castsi256_ps(quiet), nan),
                         _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

inline F16 load(const float* p, Full) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline F16 load(const StoredBf16* p, Full) {
  const auto* q = reinterpret_cast<const __m128i*>(p);
  return {widen_bf16(_mm_loadu_si128(q)), widen_bf16(_mm_loadu_si128(q + 1))};
}
inline F16 load(const StoredFp16* p, Full) {
  const auto* q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
inline void store(float* p, F16 x, Full) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
inline void store(StoredBf16* p, F16 x, Full) {
  auto* q = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(q, narrow_bf16(x.a));
  _mm_storeu_si128(q + 1, narrow_bf16(x.b));
}
inline void store(StoredFp16* p, F16 x, Full) {
  auto* q = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(q, narrow_fp16(x.a));
  _mm_storeu_si128(q + 1, narrow_fp16(x.b));
}
/// Tails go through a small buffer: the same code, and no byte outside the row is touched.
template <class T>
inline F16 load(const T* p, Part part) {
  T buffer[16] = {};
  std::memcpy(buffer, p, static_cast<std::size_t>(part.n) * sizeof(T));
  return load(buffer, Full{});
}
template <class T>
inline void store(T* p, F16 x, Part part) {
  T buffer[16];
  store(buffer, x, Full{});
  std::memcpy(p, buffer, static_cast<std::size_t>(part.n) * sizeof(T));
}

inline F16 rounded(const float*, F16 x) { return x; }
template <class T>
inline F16 rounded(const T*, F16 x) {
  T buffer[16];
  store(buffer, x, Full{});
  return load(buffer, Full{});
}

/// Replaces lanes from part.n on by `value`.
inline F16 fill_after(F16 x, float, Full) { return x; }
inline F16 fill_after(F16 x, float value, Part part) {
  float buffer[16];
  store(buffer, x, Full{});
  for (int i = part.n; i < 16; ++i) buffer[i] = value;
  return load(buffer, Full{});
}

}  // namespace
}  // namespace tessera
