#pragma once
// Sums over the rows of a matrix, in one order that only its shape decides.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tessera/kernels/views.hpp"

namespace tessera {

/// Computes gradient (1 x width) = or += the sum of the rows of parts [count, width]. The second, if there is one, has
/// the first's type.
struct ColumnSum {
  const float* parts = nullptr;
  GradientView gradient;
};
void sum_columns(cudaStream_t stream, std::int64_t count, std::int64_t width, const ColumnSum& first,
                 const ColumnSum& second = {});

/// Computes gradient (1 x width) = or += the sum of the rows of matrix [rows, width]. `workspace`: at least `width`
/// floats; more (up to 256 times as many) make it faster.
void sum_rows(cudaStream_t stream, const ConstView& matrix, std::int64_t rows, std::int64_t width,
              const GradientView& gradient, float* workspace, std::int64_t workspace_floats);

}  // namespace tessera
