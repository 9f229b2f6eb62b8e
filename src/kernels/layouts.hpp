#pragma once
// The division of the kernels' scratch: computed from shapes, used by the implementation and by the declared sizes.

#include <cstdint>

#include "kernels/carver.hpp"
#include "kernels/tiling.hpp"
#include "tessera/kernels/arguments.hpp"

namespace tessera {

/// Norm backward: tokens are summed into gain and bias gradients in groups of 32, then the groups in order.
struct NormBackwardLayout {
  NormBackwardLayout(Carver& carver, std::int64_t tokens, std::int64_t width);
  Tiling groups;
  float* gain_sums;  ///< [groups, width]
  float* bias_sums;  ///< [groups, width]
};

/// Embedding backward on a GPU: token and position of each row as one number, sorted, and memory to merge into.
struct CudaEmbeddingBackwardLayout {
  CudaEmbeddingBackwardLayout(Carver& carver, std::int64_t tokens);
  std::uint64_t *keys, *merged;  ///< [tokens] each
};

/// Norm backward on a GPU: a thread block sums a group of tokens into one row; at most 512 groups of at least 16.
struct CudaNormBackwardLayout {
  CudaNormBackwardLayout(Carver& carver, std::int64_t tokens, std::int64_t width);
  Tiling groups;
  float* gain_sums;  ///< [groups, width]
  float* bias_sums;  ///< [groups, width]
};

/// Attention backward: fp32 accumulator of the query gradient (16-bit storage only) and dot(output, d output) per row.
struct AttentionBackwardLayout {
  AttentionBackwardLayout(Carver& carver, const AttentionShape& shape, DType dtype);
  float* query_gradient;  ///< [tokens, heads * head_width], or null for fp32
  float* delta;           ///< [batch, heads, sequence]
};

/// Attention backward on a GPU: key/value and query gradients are two kernels that share nothing but delta.
struct CudaAttentionBackwardLayout {
  CudaAttentionBackwardLayout(Carver& carver, const AttentionShape& shape);
  float* delta;  ///< [batch, heads, sequence]
};

/// Attention backward by cuDNN: its graph's results in memory, and a bound for the library's own workspace. The bound
/// was read off plans of 9.19 and 9.26 (tests/cudnn_plans): 256 bytes. With shared heads there is also a gradient for
/// every query head of both keys and values. A plan that needs more is refused.
struct CudnnAttentionBackwardLayout {
  CudnnAttentionBackwardLayout(Carver& carver, const AttentionShape& shape);
  /// Returns whether cuDNN is tried for this storage and these heads.
  static bool is_possible(const AttentionShape& shape, DType dtype);
  static std::int64_t workspace_bytes(const AttentionShape& shape);
  float* delta;               ///< [batch, heads, sequence]
  float* query_gradient_sum;  ///< [batch, heads, sequence, head_width]
  void* workspace;            ///< aligned to 256 bytes
};

/// The head's chunks of tokens and all memory that lives between its steps.
struct HeadLayout {
  HeadLayout(Carver& carver, std::int64_t tokens, std::int64_t width, std::int64_t vocab, DType compute, DType gradient,
             bool training);
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

/// The head on a GPU: a chunk is one matmul, its logits become their own gradient in place.
struct CudaHeadLayout {
  /// A chunk's logits: 1 GiB at most (each chunk reads and writes the full table gradient), and at least 128 tokens.
  static constexpr std::int64_t kLogits = std::int64_t{1} << 28;

  /// `logits`: the most in a chunk.
  CudaHeadLayout(Carver& carver, std::int64_t tokens, std::int64_t width, std::int64_t vocab, DType compute,
                 DType gradient, bool training, std::int64_t logits = kLogits);
  Tiling chunks;                       ///< of tokens
  std::int64_t logits_stride;          ///< in fp32 elements: rows are 256 bytes aligned
  void* normalized;                    ///< [tokens, width] in compute
  float *mean, *reciprocal_deviation;  ///< [tokens]
  double* token_loss;                  ///< [tokens]
  float* logits;  ///< [chunk, logits_stride]; then its gradient in compute, rows as many bytes apart
  // Training:
  void* normalized_gradient = nullptr;  ///< [tokens, width] in compute
  float* table_sum = nullptr;           ///< [vocab, width]; null when the gradient buffer itself can accumulate
  void* norm_scratch = nullptr;
};

}  // namespace tessera
