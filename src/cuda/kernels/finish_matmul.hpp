#pragma once
// Matmuls that cuBLASLt cannot finish by itself go through fp32 memory; these kernels finish them.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tessera/kernels/arguments/dropout.hpp"

namespace tessera {

/// Rows of an fp32 matmul and their position in the full matrix.
struct FinishRows {
  ConstView matmul;            ///< [rows, columns], fp32
  std::int64_t first_row = 0;  ///< of the full matrix: gives a row's mask
  std::int64_t rows = 0, columns = 0;
};

/// Computes output = residual + mask * (matmul + bias); bias, residual and dropout may be missing. Views start at
/// first_row.
void finish_linear(cudaStream_t stream, const FinishRows& r, const ConstView& bias, const ConstView& residual,
                   const View& output, const Dropout& dropout);
/// Computes gradient = (mask * matmul, with what it adds to) * gelu'(before), or without that factor if `before` is
/// empty, and without the mask where there is no dropout. Views start at first_row.
void finish_input_gradient(cudaStream_t stream, const FinishRows& r, const ConstView& before,
                           const GradientView& gradient, const Dropout& dropout);
/// Computes gradient = or += matmul. The view starts at first_row.
void finish_gradient(cudaStream_t stream, const FinishRows& r, const GradientView& gradient);

}  // namespace tessera
