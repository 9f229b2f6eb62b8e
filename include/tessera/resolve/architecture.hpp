#pragma once
// The model that the options describe. No weights are read here.

#include "tessera/config/options.hpp"
#include "tessera/model/architecture.hpp"

namespace tessera {

/// Returns the architecture that the options name, with model.dropout:
///   model.from: of its config.json, or of a checkpoint's manifest
///   model.family: with explicit sizes; kv_heads = heads and ffn_width = 4 x width if they are not given
///   model.preset: with the sizes that replace its own; for GPT-2 presets with the same rules
/// UsageError naming the option when the sizes are impossible.
Architecture resolve_architecture(const ModelOptions& options);

/// The same if model.from names a checkpoint of architecture `parent`, which was read already.
Architecture resolve_architecture(const ModelOptions& options, const Architecture& parent);

}  // namespace tessera
