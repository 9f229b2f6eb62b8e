#pragma once
// Softmax, loss and gradient of a chunk of logits.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tessera/base/dtype.hpp"
#include "tessera/kernels/step_scalars.hpp"

namespace tessera {

struct CrossEntropy {
  std::int64_t rows = 0, vocab = 0;
  std::int64_t stride = 0;       ///< from row to row, elements: a multiple of 64; those behind `vocab` do not count
  const void* logits = nullptr;  ///< [rows, stride], rows at multiples of 16 bytes
  DType logits_type = DType::fp32, compute = DType::fp32;  ///< one type, or fp32 logits
  const std::int32_t* targets = nullptr;  ///< [rows]; kUncounted: no loss and no gradient; others outside: loss NaN
  double* token_loss = nullptr;           ///< [rows]
  void* gradient = nullptr;               ///< [rows, stride] in `compute`; logits of that type may be replaced
  const StepScalars* scalars = nullptr;   ///< null: loss alone
};

/// Stores each row's loss. With scalars, also gradient = (softmax - onehot) * gradient_scale, and zeros from `vocab`
/// on.
void cross_entropy(cudaStream_t stream, const CrossEntropy& a);

/// Computes sum[row] = the sum of x[row, 0..n), in one order that only n decides. Copies x to `each` unless that is
/// null.
void sum_losses(cudaStream_t stream, const double* x, std::int64_t rows, std::int64_t n, double* sum, float* each);

}  // namespace tessera
