// Loops over rows, and functions of a vector: included after one of lanes_*.hpp.
#pragma once

namespace tessera {
namespace {

/// Calls body(first element, Full or Part) over a row of n elements: full vectors, then the tail through the same code.
template <class Body>
[[gnu::always_inline]] inline void for_lanes(std::int64_t n, Body body) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) body(i, Full{});
  if (i < n) body(i, Part{static_cast<int>(n - i)});
}

/// Computes exp(x) to about 1 ulp: x = k ln 2 + r, a polynomial in r (Cephes' expf), times 2^k. Below -87.3 it is 0,
/// above 88.3 it stays at exp(88.3); NaN stays NaN.
[[gnu::always_inline]] inline F16 exponential(F16 x) {
  const F16 magic = set(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const F16 bounded = minimum(set(88.3f), maximum(set(-87.3f), x));
  const F16 shifted = fma(bounded, set(1.44269504088896341f), magic);
  const F16 k = shifted - magic;
  F16 r = fma(k, set(-0.693359375f), bounded);
  r = fma(k, set(2.12194440e-4f), r);
  F16 p = set(1.9875691500e-4f);
  p = fma(p, r, set(1.3981999507e-3f));
  p = fma(p, r, set(8.3334519073e-3f));
  p = fma(p, r, set(4.1665795894e-2f));
  p = fma(p, r, set(1.6666665459e-1f));
  p = fma(p, r, set(5.0000001201e-1f));
  p = fma(p, r * r, r + set(1.0f));
  return zero_below(x, -87.3f, times_power_of_two(p, shifted));
}

struct GeluParts {
  F16 sigmoid;  ///< 1 / (1 + e)
  F16 e;        ///< exp(-2u), u = sqrt(2/pi) (x + 0.044715 x^3)
};

/// Computes gelu_new(x) = x/2 (1 + tanh u) = x / (1 + exp(-2u)): no cancellation anywhere.
[[gnu::always_inline]] inline GeluParts gelu_parts(F16 x) {
  constexpr float kMinusTwoRoot = -1.5957691216057308f;  // -2 sqrt(2/pi)
  const F16 cubic = fma(x * x, set(0.044715f * kMinusTwoRoot), set(kMinusTwoRoot));
  const F16 e = exponential(x * cubic);
  return {set(1.0f) / (set(1.0f) + e), e};
}

[[gnu::always_inline]] inline F16 gelu_of(F16 x) { return x * gelu_parts(x).sigmoid; }

/// Returns s + x s (1 - s) 2u', with 1 - s = e s.
[[gnu::always_inline]] inline F16 gelu_slope(F16 x) {
  constexpr float kTwoRoot = 1.5957691216057308f;
  const GeluParts g = gelu_parts(x);
  const F16 two_slope = fma(x * x, set(3.0f * 0.044715f * kTwoRoot), set(kTwoRoot));
  return fma(x * g.sigmoid, (g.e * g.sigmoid) * two_slope, g.sigmoid);
}

}  // namespace
}  // namespace tessera
