// AdamW and sums of squares.
#pragma once

#include "kernels/cpu/vector/vector_kernels.hpp"

namespace tessera {
namespace {

template <class T>
void adamw_row(const AdamWCoefficients& k, const void* gradient, float* p, float* m, float* v, std::int64_t n) {
  const auto* grad = static_cast<const T*>(gradient);
  const F16 clip = set(k.clip), minus_decay = set(-k.decay), one_minus_beta1 = set(k.one_minus_beta1);
  const F16 beta2 = set(k.beta2), one_minus_beta2 = set(k.one_minus_beta2), epsilon = set(k.epsilon);
  const F16 minus_step = set(-k.step_size), inverse_correction2 = set(k.inverse_bias_correction2);
  for_lanes(n, [&](std::int64_t i, auto lanes) {
    const F16 g = load(grad + i, lanes) * clip;
    const F16 m_old = load(m + i, lanes);
    const F16 m_new = fma(one_minus_beta1, g - m_old, m_old);
    const F16 v_new = fma(one_minus_beta2 * g, g, beta2 * load(v + i, lanes));
    const F16 p_old = load(p + i, lanes);
    const F16 p_decayed = fma(minus_decay, p_old, p_old);
    const F16 ratio = m_new / (square_root(v_new * inverse_correction2) + epsilon);
    store(m + i, m_new, lanes);
    store(v + i, v_new, lanes);
    store(p + i, fma(minus_step, ratio, p_decayed), lanes);
  });
}

template <class T>
void square_chunks_row(const void* x, std::int64_t n, double* out) {
  const auto* p = static_cast<const T*>(x);
  for (std::int64_t first = 0; first < n; first += 64) {
    const std::int64_t length = n - first < 64 ? n - first : 64;
    D16 sum = zero_doubles();
    for_lanes(length, [&](std::int64_t i, auto lanes) { add_squares(sum, load(p + first + i, lanes)); });
    *out++ = lanes_sum(sum);
  }
}

}  // namespace
}  // namespace tessera
