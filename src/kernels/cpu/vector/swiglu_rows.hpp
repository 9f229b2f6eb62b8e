// The gate of SwiGLU, forward and backward, of one row.
#pragma once

namespace tessera {
namespace {

struct SiluParts {
  F16 sigmoid;     ///< 1 / (1 + e), e = exp(-x)
  F16 complement;  ///< 1 - sigmoid = e sigmoid: no cancellation
};

[[gnu::always_inline]] inline SiluParts silu_parts(F16 x) {
  const F16 e = exponential(set(0.0f) - x);
  const F16 sigmoid = set(1.0f) / (set(1.0f) + e);
  return {sigmoid, e * sigmoid};
}

template <class T>
void swiglu_row(const void* gate, const void* up, void* out, std::int64_t n) {
  const auto* g = static_cast<const T*>(gate);
  const auto* u = static_cast<const T*>(up);
  auto* o = static_cast<T*>(out);
  for_lanes(n, [&](std::int64_t i, auto lanes) {
    const F16 x = load(g + i, lanes);
    store(o + i, x * silu_parts(x).sigmoid * load(u + i, lanes), lanes);
  });
}

/// Computes d up = d silu(gate);  d gate = d up (s + gate s (1 - s)). Everything is read before anything is written.
template <class T>
void swiglu_backward_row(const void* gate, const void* up, const void* output_gradient, void* gate_gradient,
                         void* up_gradient, std::int64_t n) {
  const auto* g = static_cast<const T*>(gate);
  const auto* u = static_cast<const T*>(up);
  const auto* d = static_cast<const T*>(output_gradient);
  auto* gate_out = static_cast<T*>(gate_gradient);
  auto* up_out = static_cast<T*>(up_gradient);
  for_lanes(n, [&](std::int64_t i, auto lanes) {
    const F16 x = load(g + i, lanes), upstream = load(d + i, lanes), factor = load(u + i, lanes);
    const SiluParts parts = silu_parts(x);
    const F16 silu = x * parts.sigmoid;
    store(up_out + i, upstream * silu, lanes);
    store(gate_out + i, upstream * factor * fma(silu, parts.complement, parts.sigmoid), lanes);
  });
}

}  // namespace
}  // namespace tessera
