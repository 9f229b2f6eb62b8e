#pragma once
// Which model the options name. No weights are read here.

#include "tessera/config/options.hpp"
#include "tessera/model/architecture.hpp"

namespace tessera {

/// The architecture of model.from (its config.json, or a checkpoint's manifest), of model.family with explicit sizes,
/// or of model.preset with the sizes that replace its own; with model.dropout. Sizes with a rule of their own follow it
/// when they are not given: kv_heads = heads and ffn_width = 4 x width for a family, and for GPT-2 presets. UsageError
/// naming the option when the sizes are impossible.
Architecture resolve_architecture(const ModelOptions& options);

/// The same where model.from names a checkpoint of architecture `parent`, which was read already.
Architecture resolve_architecture(const ModelOptions& options, const Architecture& parent);

}  // namespace tessera
