#pragma once
// Softmax, loss and gradient of a chunk of logits.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tessera/base/dtype.hpp"
#include "tessera/kernels/step_scalars.hpp"

namespace tessera {

struct CrossEntropy {
  std::int64_t rows = 0, vocab = 0, stride = 0;  ///< stride: a multiple of 4
  float* logits = nullptr;                       ///< [rows, stride]
  const std::int32_t* targets = nullptr;  ///< [rows]; kUncounted: no loss and no gradient; others outside: loss NaN
  double* token_loss = nullptr;           ///< [rows]
  const StepScalars* scalars = nullptr;   ///< null: loss alone
};

/// Stores each row's loss. With scalars, logits become (softmax - onehot) * gradient_scale in `gradient`, in place. The
/// rows begin at the same addresses, elements are as wide as that type.
void cross_entropy(cudaStream_t stream, const CrossEntropy& a, DType gradient);

/// Computes *sum = the sum of x[0..n), in one order that only n decides. Copies x to `each` unless that is null.
void sum_losses(cudaStream_t stream, const double* x, std::int64_t n, double* sum, float* each);

}  // namespace tessera
