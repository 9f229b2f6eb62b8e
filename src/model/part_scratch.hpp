#pragma once
// The private workspace of attention and MLP parts, divided in one place for the declared sizes and for the decoder.

#include <cstdint>

#include "tessera/kernels/needs.hpp"
#include "tessera/model/parts.hpp"

namespace tessera {

/// Attention, backward. (Forward and recompute need `normalized` alone.)
struct AttentionBackwardScratch {
  void* normalized = nullptr;       ///< [tokens, width]: the projection's input, recomputed
  void* qkv_gradient = nullptr;     ///< [tokens, (heads + 2 kv_heads) * head_width]
  void* width_gradient = nullptr;   ///< [tokens, width]: of attention's output, then of the normalised input
  void* masked_gradient = nullptr;  ///< [tokens, width]: d output with the dropout mask; null without dropout
  void* attention = nullptr;        ///< the kernel's own
  void* norm = nullptr;
  std::int64_t bytes = 0;
};
AttentionBackwardScratch attention_backward_scratch(const ModelParts& model, void* memory);

/// Elements from row to row of ffn_width-wide scratch.
std::int64_t ffn_stride(const ModelParts& model);

struct MlpForwardScratch {
  void* normalized = nullptr;  ///< [tokens, width]
  void* activated = nullptr;   ///< [tokens, ffn_stride]; null where it is saved
  std::int64_t bytes = 0;
};
MlpForwardScratch mlp_forward_scratch(const ModelParts& model, void* memory);

struct MlpBackwardScratch {
  void* activated = nullptr;        ///< [tokens, ffn_stride], null where it is saved; dead once the down projection's
  void* normalized = nullptr;       ///< gradient is made, then [tokens, width] and
  void* width_gradient = nullptr;   ///< [tokens, width] reuse its memory
  void* gate_gradient = nullptr;    ///< [tokens, ffn_stride]: of h, then of the gate; null without SwiGLU
  void* up_gradient = nullptr;      ///< [tokens, ffn_stride]
  void* masked_gradient = nullptr;  ///< [tokens, width]; null without dropout
  void* norm = nullptr;
  std::int64_t bytes = 0;
};
MlpBackwardScratch mlp_backward_scratch(const ModelParts& model, void* memory);

/// The head's in generation: one row a sequence.
struct LogitsScratch {
  void* rows = nullptr;        ///< [batch, width]: of the residual stream
  void* normalized = nullptr;  ///< [batch, width]
  float* mean = nullptr;       ///< [batch]
  float* reciprocal_deviation = nullptr;
  std::int64_t bytes = 0;
};
LogitsScratch logits_scratch(const ModelParts& model, void* memory);

/// Returns the columns of queries, keys and values side by side.
std::int64_t qkv_width(const Architecture& architecture);
AttentionShape attention_shape(const ModelParts& model);

}  // namespace tessera
