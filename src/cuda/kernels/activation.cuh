#pragma once
// GELU and SiLU of one number.

#include <cmath>

#include "cuda/kernels/intrinsics.cuh"
#include "tessera/kernels/arguments/activation.hpp"

namespace tessera {

/// exp(-x) and 1 / (1 + exp(-x)).
struct Logistic {
  float e;  ///< bounded: e * 0 would be NaN for an infinite e
  float sigmoid;
};

/// Computes for values stored in T. With 16-bit storage, exponential and reciprocal are the hardware's, because exact
/// ones take so many instructions that memory would wait for them.
template <class T>
__device__ __forceinline__ Logistic logistic(float x) {
  if constexpr (sizeof(T) == 2) {
    constexpr float kMinusLog2e = -1.4426950408889634f;
    const float power = x * kMinusLog2e, e = exp2_fast(power > 126.0f ? 126.0f : power);
    return {e, reciprocal_fast(1.0f + e)};
  } else {
    const float e = expf(x < -88.0f ? 88.0f : -x);
    return {e, 1.0f / (1.0f + e)};
  }
}

/// Computes gelu_new(x) = x/2 (1 + tanh u) = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3): no cancellation
/// anywhere.
template <class T>
__device__ __forceinline__ Logistic gelu_parts(float x) {
  constexpr float kTwoRoot = 1.5957691216057308f;  // 2 sqrt(2/pi)
  return logistic<T>(x * fmaf(x * x, 0.044715f * kTwoRoot, kTwoRoot));
}

template <class T>
__device__ __forceinline__ float gelu_of(float x) {
  return x * gelu_parts<T>(x).sigmoid;
}

/// Returns s + x s (1 - s) 2u', with 1 - s = e s.
template <class T>
__device__ __forceinline__ float gelu_slope(float x) {
  constexpr float kTwoRoot = 1.5957691216057308f;
  const Logistic g = gelu_parts<T>(x);
  const float two_slope = fmaf(x * x, 3.0f * 0.044715f * kTwoRoot, kTwoRoot);
  return fmaf(x * g.sigmoid, (g.e * g.sigmoid) * two_slope, g.sigmoid);
}

/// The activation of a gate and its slope. Of silu(x) = x s, s = 1 / (1 + exp(-x)), that is s + x s (1 - s).
struct Activated {
  float value, slope;
};
template <class T, GateActivation activation>
__device__ __forceinline__ Activated activated(float x) {
  if constexpr (activation == GateActivation::gelu) {
    return {gelu_of<T>(x), gelu_slope<T>(x)};
  } else {
    const Logistic g = logistic<T>(x);
    return {x * g.sigmoid, fmaf(x * g.sigmoid, g.e * g.sigmoid, g.sigmoid)};
  }
}

}  // namespace tessera
