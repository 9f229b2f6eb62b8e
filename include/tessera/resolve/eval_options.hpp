#pragma once
// The options of `tessera eval`: as given, otherwise as the checkpoint's run had them.

#include "tessera/checkpoint/records.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

/// Returns `given` with the data, sizes and precision that it leaves open taken from `run`, the options of the run that
/// wrote the checkpoint. `run` is empty for a model without a run, which is evaluated on all of the validation set.
/// Throws UsageError if there is nothing to evaluate.
Options evaluation_options(const Options& given, const NamedTexts& run);

}  // namespace tessera
