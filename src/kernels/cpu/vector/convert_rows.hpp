// Conversions and plain element-wise rows.
#pragma once

namespace tessera {
namespace {

template <class T>
void to_float_row(const void* x, float* out, std::int64_t n) {
  const auto* p = static_cast<const T*>(x);
  for_lanes(n, [&](std::int64_t i, auto lanes) { store(out + i, load(p + i, lanes), lanes); });
}

template <class T>
void from_float_row(const float* x, void* out, std::int64_t n) {
  auto* p = static_cast<T*>(out);
  for_lanes(n, [&](std::int64_t i, auto lanes) { store(p + i, load(x + i, lanes), lanes); });
}

template <class T>
void add_from_float_row(const float* x, void* out, std::int64_t n) {
  auto* p = static_cast<T*>(out);
  for_lanes(n, [&](std::int64_t i, auto lanes) { store(p + i, load(p + i, lanes) + load(x + i, lanes), lanes); });
}

inline void add_row(const float* x, const float* y, float* out, std::int64_t n) {
  for_lanes(n, [&](std::int64_t i, auto lanes) { store(out + i, load(x + i, lanes) + load(y + i, lanes), lanes); });
}

inline void multiply_row(const float* x, const float* y, float* out, std::int64_t n) {
  for_lanes(n, [&](std::int64_t i, auto lanes) { store(out + i, load(x + i, lanes) * load(y + i, lanes), lanes); });
}

inline void scale_row(float* x, float factor, std::int64_t n) {
  const F16 f = set(factor);
  for_lanes(n, [&](std::int64_t i, auto lanes) { store(x + i, load(x + i, lanes) * f, lanes); });
}

template <class T>
float dot_row(const void* x, const void* y, std::int64_t n) {
  const auto* p = static_cast<const T*>(x);
  const auto* q = static_cast<const T*>(y);
  F16 sum = set(0.0f);
  for_lanes(n, [&](std::int64_t i, auto lanes) { sum = fma(load(p + i, lanes), load(q + i, lanes), sum); });
  return lanes_sum(sum);
}

/// Sums `Vectors` vectors of columns over all rows: 32 rows at a time, so that rounding grows with rows / 32 + 32.
template <class T, int Vectors, class Lanes>
[[gnu::always_inline]] inline void sum_columns(const T* y, std::int64_t stride, std::int64_t rows, float* out,
                                               Lanes lanes) {
  F16 total[Vectors];
  for (auto& t : total) t = set(0.0f);
  for (std::int64_t first = 0; first < rows; first += 32) {
    const std::int64_t last = first + 32 < rows ? first + 32 : rows;
    F16 group[Vectors];
    for (auto& g : group) g = set(0.0f);
    for (std::int64_t row = first; row < last; ++row) {
      for (int j = 0; j < Vectors; ++j) group[j] = group[j] + load(y + row * stride + 16 * j, lanes);
    }
    for (int j = 0; j < Vectors; ++j) total[j] = total[j] + group[j];
  }
  for (std::int64_t j = 0; j < Vectors; ++j) store(out + 16 * j, total[j], lanes);
}

template <class T>
void column_sums_tile(const void* y, std::int64_t stride, std::int64_t rows, std::int64_t n, float* out) {
  const auto* p = static_cast<const T*>(y);
  std::int64_t j = 0;
  for (; j + 64 <= n; j += 64) sum_columns<T, 4>(p + j, stride, rows, out + j, Full{});
  for_lanes(n - j, [&](std::int64_t i, auto lanes) { sum_columns<T, 1>(p + j + i, stride, rows, out + j + i, lanes); });
}

}  // namespace
}  // namespace tessera
