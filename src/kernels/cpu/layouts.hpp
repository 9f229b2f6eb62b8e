#pragma once
// How the scratch of the CPU's kernels is divided: computed from shapes, used by the implementation and by the declared
// sizes.

#include <cstdint>

#include "kernels/tiling.hpp"
#include "tessera/kernels/needs.hpp"
#include "tessera/kernels/scratch_layout.hpp"

namespace tessera {

/// Norm backward: tokens are summed into gain and bias gradients in groups of 32, then the groups in order.
struct NormBackwardLayout {
  NormBackwardLayout(ScratchLayout& scratch, std::int64_t tokens, std::int64_t width);
  Tiling groups;
  float* gain_sums;  ///< [groups, width]
  float* bias_sums;  ///< [groups, width]
};

/// Attention backward: fp32 accumulator of the query gradient (16-bit storage only) and dot(output, d output) per row.
struct AttentionBackwardLayout {
  AttentionBackwardLayout(ScratchLayout& scratch, const AttentionShape& shape, DType dtype);
  float* query_gradient;  ///< [tokens, heads * head_width], or null for fp32
  float* delta;           ///< [batch, heads, sequence]
};

/// The head's chunks of tokens and everything that is kept between its steps.
struct HeadLayout {
  HeadLayout(ScratchLayout& scratch, const HeadShape& shape);
  Tiling chunks;         ///< of tokens
  Tiling logit_columns;  ///< of vocab, for logits
  Tiling vocab_groups;   ///< of vocab, for partial sums of the input gradient
  std::int64_t logits_stride;
  void* normalized;                    ///< [tokens, width] in compute
  float *mean, *reciprocal_deviation;  ///< [tokens]
  float* logits;                       ///< [chunk, logits_stride]
  float *tile_maximum, *tile_sum;      ///< [chunk, logit_columns]
  float* log_sum_exp;                  ///< [chunk]
  double* token_loss;                  ///< [chunk]
  // Training:
  void* normalized_gradient = nullptr;  ///< [tokens, width] in compute
  float* partial_gradient = nullptr;    ///< [vocab_groups, chunk, width]
  float* table_sum = nullptr;           ///< [vocab, width]; null when the gradient buffer itself can accumulate
  void* norm_scratch = nullptr;
};

/// Newton-Schulz iterations: the matrix, its successor, and two square matrices of its shorter side.
struct OrthogonalizeLayout {
  OrthogonalizeLayout(ScratchLayout& scratch, std::int64_t rows, std::int64_t columns);
  float *x, *next;           ///< [rows, columns]
  float *gram, *polynomial;  ///< [side, side]
  double* row_sums;          ///< [rows]: of squares
};

const KernelNeeds& cpu_kernel_needs();

}  // namespace tessera
