#pragma once
// The private workspace of attention and MLP parts, divided in one place for the declared sizes (scratch_bytes_of) and
// for the decoder.

#include <cstdint>

#include "tessera/kernels/needs.hpp"
#include "tessera/kernels/scratch_layout.hpp"
#include "tessera/model/parts.hpp"

namespace tessera {

/// Attention, backward. Forward and recompute need only `normalized`.
struct AttentionBackwardScratch {
  AttentionBackwardScratch(ScratchLayout& scratch, const ModelParts& model);
  void* normalized;                 ///< [tokens, width]: the projection's input, recomputed
  void* qkv_gradient;               ///< [tokens, (heads + 2 kv_heads) * head_width]
  void* width_gradient;             ///< of attention's output [tokens, query_width], then of the normalised input
  void* masked_gradient = nullptr;  ///< [tokens, width]: d output with the dropout mask; null without dropout
  void* attention;                  ///< the kernel's own
  void* norm;                       ///< of the input's norm, and before that of those of heads
};

/// Elements from row to row of ffn_width-wide scratch.
std::int64_t ffn_stride(const ModelParts& model);

struct MlpForwardScratch {
  MlpForwardScratch(ScratchLayout& scratch, const ModelParts& model);
  void* normalized;           ///< [tokens, width]
  void* activated = nullptr;  ///< [tokens, ffn_stride]; null where it is saved
};

struct MlpBackwardScratch {
  MlpBackwardScratch(ScratchLayout& scratch, const ModelParts& model);
  void* activated = nullptr;        ///< [tokens, ffn_stride], null where it is saved; dead once the down projection's
  void* normalized;                 ///< gradient is made, then [tokens, width] and
  void* width_gradient;             ///< [tokens, width] reuse its memory
  void* gate_gradient = nullptr;    ///< [tokens, ffn_stride]: of h, then of the gate; null without SwiGLU
  void* up_gradient;                ///< [tokens, ffn_stride]
  void* masked_gradient = nullptr;  ///< [tokens, width]; null without dropout
  void* norm;
};

/// The head's in generation: one row per sequence.
struct LogitsScratch {
  LogitsScratch(ScratchLayout& scratch, const ModelParts& model);
  void* rows;        ///< [batch, width]: of the residual stream
  void* normalized;  ///< [batch, width]
  float* mean;       ///< [batch]
  float* reciprocal_deviation;
};

AttentionShape attention_shape(const ModelParts& model);

}  // namespace tessera
