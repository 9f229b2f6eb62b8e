#pragma once
// Writes finished fp32 gradients: stored or added, rounded once.

#include "kernels/cpu/storage.hpp"
#include "tessera/kernels/views.hpp"

namespace tessera {

/// Sets gradient[row][column ..] = or += values[0..n).
inline void write_gradient_row(const VectorKernels& vector, const GradientView& gradient, std::int64_t row,
                               std::int64_t column, const float* values, std::int64_t n) {
  const int type = storage_index(gradient.view.dtype);
  (gradient.adds ? vector.add_from_float : vector.from_float)[type](values, gradient.view.at(row, column), n);
}

}  // namespace tessera
