// Rotary positions of one head.
#pragma once

namespace tessera {
namespace {

/// Rotates the pair (x[i], x[i + half]) by the angle of (cosine[i], sine[i]); out may be x.
template <class T>
void rotary_row(const void* x, const float* cosine, const float* sine, void* out, std::int64_t half) {
  const auto* p = static_cast<const T*>(x);
  auto* o = static_cast<T*>(out);
  for_lanes(half, [&](std::int64_t i, auto lanes) {
    const F16 first = load(p + i, lanes), second = load(p + half + i, lanes);
    const F16 c = load(cosine + i, lanes), s = load(sine + i, lanes);
    store(o + i, first * c - second * s, lanes);
    store(o + half + i, second * c + first * s, lanes);
  });
}

}  // namespace
}  // namespace tessera
