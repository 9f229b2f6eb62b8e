#pragma once
// The FLOPs of training on one token, by both ways of counting.

#include "tessera/model/parts.hpp"

namespace tessera {

/// Counts as publications do: all parameters once forward and twice backward, and attention's two matmuls over the
/// whole sequence. 6 N + 12 x layers x (heads x head width) x sequence (PaLM's appendix B).
inline double published_flops_per_token(const ModelParts& model) {
  const Architecture& a = model.architecture;
  return 6.0 * static_cast<double>(model.parameter_count()) + 12.0 * static_cast<double>(a.layers) *
                                                                  static_cast<double>(a.query_width()) *
                                                                  static_cast<double>(model.sequence);
}

/// Counts the model's matmuls, forward and backward once.
inline double matmul_flops_per_token(const ModelParts& model) {
  return static_cast<double>(model.training_flops()) / static_cast<double>(model.tokens());
}

}  // namespace tessera
