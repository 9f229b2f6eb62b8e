// 16 lanes in one AVX-512 register. Included by vector_avx512.cpp only (see lanes_scalar.hpp for what each function
// means).
#pragma once

#include <immintrin.h>

#include <cstdint>

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
  __m512 v;
};
struct D16 {
  __m512d low, high;
};

inline __mmask16 mask_of(Part part) { return static_cast<__mmask16>((1u << part.n) - 1u); }

inline F16 set(float x) { return {_mm512_set1_ps(x)}; }
inline F16 operator+(F16 a, F16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F16 operator-(F16 a, F16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F16 operator*(F16 a, F16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F16 operator/(F16 a, F16 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F16 fma(F16 a, F16 b, F16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F16 square_root(F16 a) { return {_mm512_sqrt_ps(a.v)}; }
inline F16 maximum(F16 a, F16 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F16 minimum(F16 a, F16 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline F16 zero_below(F16 x, float limit, F16 value) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, _mm512_set1_ps(limit), _CMP_NLT_UQ), value.v)};
}
inline F16 times_power_of_two(F16 x, F16 shifted) {
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x.v), exponent))};
}

inline float lanes_sum(F16 a) {
  const __m256 low = _mm512_castps512_ps256(a.v);
  const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a.v), 1));
  const __m256 eight = _mm256_add_ps(low, high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float lanes_maximum(F16 a) { return _mm512_reduce_max_ps(a.v); }

inline D16 zero_doubles() { return {_mm512_setzero_pd(), _mm512_setzero_pd()}; }
inline void add_squares(D16& sum, F16 x) {
  const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(x.v));
  const __m512d high = _mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x.v), 1)));
  sum.low = _mm512_fmadd_pd(low, low, sum.low);
  sum.high = _mm512_fmadd_pd(high, high, sum.high);
}
inline double lanes_sum(const D16& a) {
  const __m512d eight = _mm512_add_pd(a.low, a.high);
  const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

inline F16 widen_bf16(__m256i bits) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
inline __m256i narrow_bf16(F16 x) {
  const __m512i u = _mm512_castps_si512(x.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
  const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(0x40));
  return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q), quiet));
}
inline F16 widen_fp16(__m256i bits) { return {_mm512_cvtph_ps(bits)}; }
inline __m256i narrow_fp16(F16 x) {
  const __m512i u = _mm512_castps_si512(x.v);
  const __m512i quiet = _mm512_or_si512(_mm512_and_si512(u, _mm512_set1_epi32(static_cast<int>(0x80000000u))),
                                        _mm512_set1_epi32(0x7fc00000));
  const __m512i safe = _mm512_mask_mov_epi32(u, _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q), quiet);
  return _mm512_cvtps_ph(_mm512_castsi512_ps(safe), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

inline F16 load(const float* p, Full) { return {_mm512_loadu_ps(p)}; }
inline F16 load(const float* p, Part part) { return {_mm512_maskz_loadu_ps(mask_of(part), p)}; }
inline F16 load(const StoredBf16* p, Full) {
  return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline F16 load(const StoredBf16* p, Part part) { return widen_bf16(_mm256_maskz_loadu_epi16(mask_of(part), p)); }
inline F16 load(const StoredFp16* p, Full) {
  return widen_fp16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline F16 load(const StoredFp16* p, Part part) { return widen_fp16(_mm256_maskz_loadu_epi16(mask_of(part), p)); }

inline void store(float* p, F16 x, Full) { _mm512_storeu_ps(p, x.v); }
inline void store(float* p, F16 x, Part part) { _mm512_mask_storeu_ps(p, mask_of(part), x.v); }
inline void store(StoredBf16* p, F16 x, Full) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_bf16(x)); }
inline void store(StoredBf16* p, F16 x, Part part) { _mm256_mask_storeu_epi16(p, mask_of(part), narrow_bf16(x)); }
inline void store(StoredFp16* p, F16 x, Full) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_fp16(x)); }
inline void store(StoredFp16* p, F16 x, Part part) { _mm256_mask_storeu_epi16(p, mask_of(part), narrow_fp16(x)); }

inline F16 rounded(const float*, F16 x) { return x; }
inline F16 rounded(const StoredBf16*, F16 x) { return widen_bf16(narrow_bf16(x)); }
inline F16 rounded(const StoredFp16*, F16 x) { return widen_fp16(narrow_fp16(x)); }

/// Replaces lanes from part.n on by `value`.
inline F16 fill_after(F16 x, float, Full) { return x; }
inline F16 fill_after(F16 x, float value, Part part) {
  return {_mm512_mask_mov_ps(_mm512_set1_ps(value), mask_of(part), x.v)};
}

}  // namespace
}  // namespace tessera
