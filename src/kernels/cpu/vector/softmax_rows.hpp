// Softmax of rows of fp32 scores.
#pragma once

namespace tessera {
namespace {

inline constexpr float kLowestScore = -3.0e38f;  ///< below every score: the start value of a running maximum

inline float maximum_of_row(const float* x, std::int64_t n) {
  F16 top = set(kLowestScore);
  for_lanes(
      n, [&](std::int64_t i, auto lanes) { top = maximum(fill_after(load(x + i, lanes), kLowestScore, lanes), top); });
  return lanes_maximum(top);
}

/// Sets x = exp(scale x - offset); returns the sum of the new x.
[[gnu::always_inline]] inline float exponentials_of_row(float* x, std::int64_t n, float scale, float offset) {
  const F16 s = set(scale), o = set(-offset);
  F16 sum = set(0.0f);
  for_lanes(n, [&](std::int64_t i, auto lanes) {
    const F16 e = fill_after(exponential(fma(load(x + i, lanes), s, o)), 0.0f, lanes);
    store(x + i, e, lanes);
    sum = sum + e;
  });
  return lanes_sum(sum);
}

inline float softmax_online_row(float* s, std::int64_t n, float scale, float* running_maximum, float* running_sum) {
  const float old_maximum = *running_maximum;
  const float tile_maximum = scale * maximum_of_row(s, n);
  const float new_maximum = tile_maximum > old_maximum ? tile_maximum : old_maximum;
  float shrink[16];
  store(shrink, exponential(set(old_maximum - new_maximum)), Full{});
  *running_sum = *running_sum * shrink[0] + exponentials_of_row(s, n, scale, new_maximum);
  *running_maximum = new_maximum;
  return shrink[0];
}

inline void softmax_again_row(float* s, std::int64_t n, float scale, float log_sum_exp) {
  const F16 f = set(scale), o = set(-log_sum_exp);
  for_lanes(n, [&](std::int64_t i, auto lanes) { store(s + i, exponential(fma(load(s + i, lanes), f, o)), lanes); });
}

inline void softmax_backward_row(const float* p, float* dp, std::int64_t n, float delta, float scale) {
  const F16 d = set(delta), f = set(scale);
  for_lanes(
      n, [&](std::int64_t i, auto lanes) { store(dp + i, load(p + i, lanes) * (load(dp + i, lanes) - d) * f, lanes); });
}

inline void log_sum_exp_parts_row(const float* x, std::int64_t n, float* top, float* total) {
  *top = maximum_of_row(x, n);
  const F16 o = set(*top);
  F16 sum = set(0.0f);
  for_lanes(
      n, [&](std::int64_t i, auto lanes) { sum = sum + fill_after(exponential(load(x + i, lanes) - o), 0.0f, lanes); });
  *total = lanes_sum(sum);
}

}  // namespace
}  // namespace tessera
