#pragma once
// The matmul of one tile, on the calling thread alone, by oneDNN, or on Arm by OpenBLAS. It is sgemm, or the matmul of
// bf16 operands with fp32 sums if the processor has instructions for it. Other 16-bit operands are converted to fp32
// first.

#include <cstdint>

#include "kernels/cpu/vector/vector_kernels.hpp"
#include "tessera/kernels/kernels.hpp"
#include "tessera/kernels/scratch_layout.hpp"
#include "tessera/kernels/views.hpp"

namespace tessera {

/// A matrix as it is stored, read as it is or transposed.
struct Operand {
  ConstView view;
  bool transposed = false;

  /// Returns the operand that starts at (row, column) of the matrix as it is read.
  Operand from(std::int64_t row, std::int64_t column) const {
    const void* data = transposed ? view.at(column, row) : view.at(row, column);
    return {{data, view.dtype, view.stride}, transposed};
  }
};

/// Largest tile: m <= kTileRows, n <= kTileColumns (k is free).
inline constexpr std::int64_t kTileRows = 256, kTileColumns = 384;

/// Returns whether matmuls read operands of `dtype` as they are stored. fp32: always. bf16: on processors with AVX-512
/// BF16 or AMX, unless ONEDNN_MAX_CPU_ISA forbids their use. Constant for the life of the process.
bool multiplies(DType dtype);

/// Computes c[m, n] = a[m, k] b[k, n], or += if `adds`; sums are fp32. Operands of one dtype that `multiplies` are read
/// in place. Otherwise 16-bit operands are converted to fp32 panels in `scratch`, k in pieces of 1024.
void tile_matmul(const VectorKernels& vector, ScratchLayout scratch, const Operand& a, const Operand& b, std::int64_t m,
                 std::int64_t n, std::int64_t k, bool adds, float* c, std::int64_t c_stride);

/// Returns "oneDNN 2.6.3", or "OpenBLAS 0.3.21 for NEOVERSEV1".
Implementation matrix_library();

}  // namespace tessera
