// Operations on a row of a matmul's tile while it is in cache.
#pragma once

namespace tessera {
namespace {

template <class T>
void linear_epilogue_row(const float* c, const void* bias, const float* mask, const void* residual, void* out,
                         void* activated, std::int64_t n) {
  const auto* b = static_cast<const T*>(bias);
  const auto* r = static_cast<const T*>(residual);
  auto* o = static_cast<T*>(out);
  auto* a = static_cast<T*>(activated);
  for_lanes(n, [&](std::int64_t i, auto lanes) {
    F16 y = load(c + i, lanes);
    if (b != nullptr) y = y + load(b + i, lanes);
    if (mask != nullptr) y = y * load(mask + i, lanes);
    if (r != nullptr) y = y + load(r + i, lanes);
    if (o != nullptr) store(o + i, y, lanes);
    if (a != nullptr) store(a + i, gelu_of(rounded(a, y)), lanes);
  });
}

template <class T>
void gelu_row(const void* x, void* out, std::int64_t n) {
  const auto* p = static_cast<const T*>(x);
  auto* o = static_cast<T*>(out);
  for_lanes(n, [&](std::int64_t i, auto lanes) { store(o + i, gelu_of(load(p + i, lanes)), lanes); });
}

template <class T>
void gelu_backward_row(const float* c, const void* before, void* out, std::int64_t n) {
  const auto* p = static_cast<const T*>(before);
  auto* o = static_cast<T*>(out);
  for_lanes(
      n, [&](std::int64_t i, auto lanes) { store(o + i, load(c + i, lanes) * gelu_slope(load(p + i, lanes)), lanes); });
}

}  // namespace
}  // namespace tessera
