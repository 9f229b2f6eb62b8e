#pragma once
// How the scratch of the GPU's kernels is divided, computed from shapes. The implementation (src/cuda) uses it, and so
// do the declared sizes, which a build without CUDA has too.

#include <cstdint>

#include "kernels/tiling.hpp"
#include "tessera/kernels/needs.hpp"
#include "tessera/kernels/scratch_layout.hpp"

namespace tessera {

/// Of cuBLASLt, as its documentation recommends for Hopper.
inline constexpr std::int64_t kMatmulWorkspaceBytes = std::int64_t{32} << 20;
/// Of our own kernels: partial sums, and matmuls that they finish.
inline constexpr std::int64_t kSumWorkspaceBytes = std::int64_t{32} << 20;

/// Embedding backward on a GPU: token and position of each row as one number, sorted, and memory to merge into.
struct CudaEmbeddingBackwardLayout {
  CudaEmbeddingBackwardLayout(ScratchLayout& scratch, std::int64_t tokens);
  std::uint64_t *keys, *merged;  ///< [tokens] each
};

/// Norm backward on a GPU: a thread block sums a group of at least 16 tokens into one row. Blocks are a little fewer
/// than an H100 runs in one wave, or in two. Rows of 1537 to 2048 columns take blocks of 7 or 8 warps, of which three
/// fit a multiprocessor: 384 of 3 x 132 are one wave. Of those of most other rows two fit: 512 of 2 x 264 are two
/// waves.
struct CudaNormBackwardLayout {
  CudaNormBackwardLayout(ScratchLayout& scratch, std::int64_t tokens, std::int64_t width);
  static Tiling groups_of(std::int64_t tokens, std::int64_t width);
  /// The widest rows whose sums fit into registers next to those of gain and bias.
  static constexpr std::int64_t kWidestSummed = 2048;
  Tiling groups;
  float* gain_sums;  ///< [groups, width]
  float* bias_sums;  ///< [groups, width]
};

/// Attention backward on a GPU: key/value and query gradients are two kernels that share nothing but delta.
struct CudaAttentionBackwardLayout {
  CudaAttentionBackwardLayout(ScratchLayout& scratch, const AttentionShape& shape);
  float* delta;  ///< [batch, heads, sequence]
};

/// What cuDNN is told of documents: lengths, and the first element of each in every tensor. Without documents it takes
/// nothing.
struct CudnnDocumentsLayout {
  CudnnDocumentsLayout(ScratchLayout& scratch, std::int64_t documents);
  std::int32_t* lengths;                                     ///< [documents]
  std::int32_t *query, *key, *value, *output, *log_sum_exp;  ///< [documents + 1] each
};

/// Attention backward by cuDNN: its graph's results in memory, and a bound for the library's own workspace. The bound
/// was read off plans of 9.16, 9.19, 9.25 and 9.28 (tests/cudnn_plans): 256 bytes. With shared heads there is also a
/// gradient for every query head of both keys and values. A deterministic backward keeps the gradients of all scores
/// instead of a sum of query gradients. A plan that needs more is refused. Each document takes as much as a sequence.
struct CudnnAttentionBackwardLayout {
  CudnnAttentionBackwardLayout(ScratchLayout& scratch, const AttentionShape& shape, bool deterministic);
  static std::int64_t workspace_bytes(const AttentionShape& shape, bool deterministic);
  CudnnDocumentsLayout documents;
  float* delta;                         ///< [sequences, heads, sequence], where `sequences` are the batch or documents
  float* query_gradient_sum = nullptr;  ///< [sequences, heads, sequence, head_width]; not where it is deterministic
  void* workspace = nullptr;            ///< aligned to 256 bytes
};

/// Newton-Schulz iterations on a GPU, in bf16.
struct CudaOrthogonalizeLayout {
  /// Blocks that sum squares of the input.
  static constexpr std::int64_t kSums = 512;

  CudaOrthogonalizeLayout(ScratchLayout& scratch, std::int64_t rows, std::int64_t columns);
  std::int64_t stride, side_stride;  ///< elements from row to row: multiples of 8
  void *x, *next;                    ///< [rows, columns]
  void *gram, *polynomial;           ///< [side, side]
  double* sums;                      ///< [kSums]
};

/// The head on a GPU: a chunk is one matmul.
struct CudaHeadLayout {
  /// A chunk's logits with their gradient: 1 GiB at most (each chunk reads and writes the full table gradient), and at
  /// least 128 tokens.
  static constexpr std::int64_t kLogitBytes = std::int64_t{1} << 30;

  CudaHeadLayout(ScratchLayout& scratch, const HeadShape& shape, std::int64_t logit_bytes = kLogitBytes);
  Tiling chunks;                       ///< of tokens
  std::int64_t logits_stride;          ///< elements: a multiple of 64, not less than the table's rows
  void* normalized;                    ///< [tokens, width] in compute
  float *mean, *reciprocal_deviation;  ///< [tokens]
  double* token_loss;                  ///< [tokens]
  void* logits;                        ///< [chunk, logits_stride]
  // Training:
  void* logit_gradient = nullptr;       ///< [chunk, logits_stride] in compute; logits of that type are replaced
  void* normalized_gradient = nullptr;  ///< [tokens, width] in compute
  float* table_sum = nullptr;           ///< [table_rows, width]; null when the gradient buffer itself can accumulate
  void* norm_scratch = nullptr;
};

const KernelNeeds& gpu_kernel_needs();

}  // namespace tessera
