#pragma once
// GELU and SiLU of one number.

#include <cmath>

#include "kernels/cuda/intrinsics.cuh"

namespace tessera {

/// exp(x), at most exp(88): e * 0 would be NaN for an infinite e.
__device__ __forceinline__ float bounded_exp(float x) { return expf(x > 88.0f ? 88.0f : x); }

struct GeluParts {
  float sigmoid;  ///< 1 / (1 + e)
  float e;        ///< exp(-2u), u = sqrt(2/pi) (x + 0.044715 x^3)
};

/// gelu_new(x) = x/2 (1 + tanh u) = x / (1 + exp(-2u)): no cancellation anywhere.
__device__ __forceinline__ GeluParts gelu_parts(float x) {
  constexpr float kMinusTwoRoot = -1.5957691216057308f;  // -2 sqrt(2/pi)
  const float cubic = fmaf(x * x, 0.044715f * kMinusTwoRoot, kMinusTwoRoot);
  const float e = bounded_exp(x * cubic);
  return {1.0f / (1.0f + e), e};
}

__device__ __forceinline__ float gelu_of(float x) { return x * gelu_parts(x).sigmoid; }

/// s + x s (1 - s) 2u', with 1 - s = e s.
__device__ __forceinline__ float gelu_slope(float x) {
  constexpr float kTwoRoot = 1.5957691216057308f;
  const GeluParts g = gelu_parts(x);
  const float two_slope = fmaf(x * x, 3.0f * 0.044715f * kTwoRoot, kTwoRoot);
  return fmaf(x * g.sigmoid, (g.e * g.sigmoid) * two_slope, g.sigmoid);
}

/// silu(x) = x s and its slope s + x s (1 - s), s = 1 / (1 + exp(-x)).
struct SiluParts {
  float value, slope;
};
__device__ __forceinline__ SiluParts silu_parts(float x) {
  const float e = bounded_exp(-x), s = 1.0f / (1.0f + e);
  return {x * s, fmaf(x * s, e * s, s)};
}

}  // namespace tessera
