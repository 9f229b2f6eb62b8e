#pragma once
// The table of `tessera bench kernels`.

#include <optional>

#include "bench/machine_rates.hpp"
#include "bench/result.hpp"
#include "tessera/resolve/machine.hpp"

namespace tessera {

/// Measures every kernel of the options' training step on all ranks at once, and ceilings at these sizes; none: those
/// of the device. Collective; the result is the caller's. Throws UsageError for a model that cannot be trained, an
/// impossible schedule, or too little memory.
BenchResult kernel_table(RankContext& context, const Options& options, const MachineShape& machine,
                         const std::optional<RateSizes>& sizes = {});

}  // namespace tessera
