#pragma once
// Tensors that lie in memory without a gap.

#include <vector>

#include "tessera/model/parts.hpp"

namespace tessera::testing {

/// Returns a tensor and those that lie behind it.
inline std::vector<TensorId> stack_of(const ModelParts& model, TensorId first) {
  std::vector<TensorId> stack{first};
  for (const TensorId id : model.tensors.ids()) {
    if (model.tensors[id].follows == stack.back()) stack.push_back(id);
  }
  return stack;
}

}  // namespace tessera::testing
