#pragma once
// From [lora] to the adapters of a model.

#include "tessera/base/refuse.hpp"
#include "tessera/config/options.hpp"
#include "tessera/formats/peft.hpp"

namespace tessera {

/// Returns the adapters of a model that options ask for; none without them. `folder` is that of lora.from, if it is
/// read. UsageError if they do not fit the model or the folder.
Adapters adapters_of(const Options& options, const Architecture& base, const PeftFolder* folder);

/// Refuses a checkpoint of adapters as model.from of a run that trains, or of other adapters.
Refusal adapters_as_base(const Options& options);

/// Writes the adapters of a model into the options, so that they repeat them.
void write_adapters(const Architecture& architecture, LoraOptions& options);

}  // namespace tessera
