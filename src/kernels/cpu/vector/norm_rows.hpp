// Layer norm and RMS norm of one row (Ba et al. 2016; Zhang & Sennrich 2019).
#pragma once

namespace tessera {
namespace {

/// Computes the mean, then the variance around it: two passes over a row in cache, no cancellation.
template <class T>
void norm_statistics_row(const void* x, std::int64_t n, bool subtract_mean, float epsilon, float* mean, float* rstd) {
  const auto* p = static_cast<const T*>(x);
  const auto count = static_cast<float>(n);
  float centre = 0;
  if (subtract_mean) {
    F16 sum = set(0.0f);
    for_lanes(n, [&](std::int64_t i, auto lanes) { sum = sum + load(p + i, lanes); });
    centre = lanes_sum(sum) / count;
    *mean = centre;
  }
  const F16 c = set(centre);
  F16 squares = set(0.0f);
  for_lanes(n, [&](std::int64_t i, auto lanes) {
    const F16 d = fill_after(load(p + i, lanes) - c, 0.0f, lanes);
    squares = fma(d, d, squares);
  });
  const F16 root = square_root(set(lanes_sum(squares) / count + epsilon));
  float roots[16];
  store(roots, root, Full{});
  *rstd = 1.0f / roots[0];
}

template <class T>
void norm_apply_row(const void* x, float mean, float rstd, const void* gain, const void* bias, void* out,
                    std::int64_t n) {
  const auto* p = static_cast<const T*>(x);
  const auto* g = static_cast<const T*>(gain);
  const auto* b = static_cast<const T*>(bias);
  auto* o = static_cast<T*>(out);
  const F16 c = set(mean), r = set(rstd);
  if (b != nullptr) {
    for_lanes(n, [&](std::int64_t i, auto lanes) {
      store(o + i, fma((load(p + i, lanes) - c) * r, load(g + i, lanes), load(b + i, lanes)), lanes);
    });
  } else {
    for_lanes(
        n, [&](std::int64_t i, auto lanes) { store(o + i, (load(p + i, lanes) - c) * r * load(g + i, lanes), lanes); });
  }
}

/// With h = xhat, w = gain * dy: dx = rstd (w - mean(w) - h mean(w h)); RMS norm lacks the mean(w) term.
template <class T>
void norm_backward_row(const void* x, const void* dy, float mean, float rstd, bool subtract_mean, const void* gain,
                       void* dx, bool adds, float* gain_sums, float* bias_sums, std::int64_t n) {
  const auto* p = static_cast<const T*>(x);
  const auto* d = static_cast<const T*>(dy);
  const auto* g = static_cast<const T*>(gain);
  auto* o = static_cast<T*>(dx);
  const F16 c = set(mean), r = set(rstd);
  F16 sum = set(0.0f), projected = set(0.0f);
  for_lanes(n, [&](std::int64_t i, auto lanes) {
    const F16 h = (load(p + i, lanes) - c) * r;
    const F16 upstream = load(d + i, lanes);
    const F16 w = upstream * load(g + i, lanes);
    sum = sum + w;
    projected = fma(w, h, projected);
    store(gain_sums + i, fma(upstream, h, load(gain_sums + i, lanes)), lanes);
    if (bias_sums != nullptr) store(bias_sums + i, load(bias_sums + i, lanes) + upstream, lanes);
  });
  const auto count = static_cast<float>(n);
  const F16 mean_w = set(subtract_mean ? lanes_sum(sum) / count : 0.0f);
  const F16 mean_wh = set(-(lanes_sum(projected) / count));
  for_lanes(n, [&](std::int64_t i, auto lanes) {
    const F16 h = (load(p + i, lanes) - c) * r;
    const F16 w = load(d + i, lanes) * load(g + i, lanes);
    const F16 inner = fma(h, mean_wh, w - mean_w);
    store(o + i, adds ? fma(inner, r, load(o + i, lanes)) : inner * r, lanes);
  });
}

}  // namespace
}  // namespace tessera
