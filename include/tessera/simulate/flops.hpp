#pragma once
// The FLOPs of training on one token, by both ways of counting.

#include <algorithm>

#include "tessera/model/parts.hpp"

namespace tessera {

/// Counts as publications do: all parameters once forward and twice backward, and attention's two matmuls over the
/// whole sequence, or over a layer's window. 6 N + 12 x (heads x head width) x sequence, summed over layers (PaLM's
/// appendix B).
inline double published_flops_per_token(const ModelParts& model) {
  const Architecture& a = model.architecture;
  std::int64_t seen = 0;
  for (std::int64_t layer = 0; layer < a.layers; ++layer)
    seen += a.sees_all(layer) ? model.sequence : std::min(model.sequence, a.window);
  return 6.0 * static_cast<double>(model.parameter_count()) +
         12.0 * static_cast<double>(a.query_width()) * static_cast<double>(seen);
}

/// Counts the model's matmuls, forward and backward once.
inline double matmul_flops_per_token(const ModelParts& model) {
  return static_cast<double>(model.training_flops()) / static_cast<double>(model.tokens());
}

}  // namespace tessera
