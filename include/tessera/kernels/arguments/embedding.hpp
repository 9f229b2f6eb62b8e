#pragma once
// Embeddings of tokens and positions.

#include <cstdint>

#include "tessera/kernels/arguments/dropout.hpp"
#include "tessera/kernels/views.hpp"

namespace tessera {

/// out[t] = dropout(scale * token_table[tokens[t]] + position_table[position of t]); position_table may be empty
/// (rotary).
struct EmbeddingForward {
  std::int64_t batch = 0, sequence = 0, width = 0, vocab = 0;
  const std::int32_t* tokens = nullptr;     ///< [batch, sequence], each in [0, vocab)
  const std::int32_t* positions = nullptr;  ///< [batch, sequence]: rows of position_table; null: t mod sequence
  ConstView token_table;                    ///< [vocab, width]
  ConstView position_table;                 ///< [> every position, width]
  View output;                              ///< [batch * sequence, width]
  Dropout dropout;
  float scale = 1;  ///< of the token's row (Gemma: sqrt(width))
};

struct EmbeddingBackward {
  std::int64_t batch = 0, sequence = 0, width = 0, vocab = 0, context = 0;
  const std::int32_t* tokens = nullptr;
  const std::int32_t* positions = nullptr;  ///< forward's
  ConstView output_gradient;                ///< [batch * sequence, width]
  /// [vocab, width]: rows of absent tokens become zero (or stay, when adding). Empty, as all gradients of parameters
  /// may be: not computed.
  GradientView token_gradient;
  GradientView position_gradient;  ///< [context, width]
  Dropout dropout;                 ///< forward's
  void* scratch = nullptr;         ///< KernelNeeds::embedding_backward
  float scale = 1;                 ///< forward's: of token_gradient, before it is added to memory
};

}  // namespace tessera
