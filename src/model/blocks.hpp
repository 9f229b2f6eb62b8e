#pragma once
// Makes the tensors, parts, layers and constants of a model, and what follows from them.

#include "tessera/model/parts.hpp"

namespace tessera {

/// Appends the parts of `model`, with their layers, and the tensors and constants that these need. The architecture,
/// sizes, types and choices in `model` are there already. UsageError if the architecture is impossible.
void build_layers(ModelParts& model);

/// Decides what follows from each part's layers: what it saves, the turns of backward, and by dry runs scratch and
/// FLOPs of each direction.
void plan_parts(ModelParts& model);

}  // namespace tessera
