#pragma once
// The table of `tessera bench kernels`.

#include <string>

#include "app/bench_device.hpp"
#include "app/machine_rates.hpp"

namespace tessera {

/// Measures every kernel of the options' training step on all ranks at once. Collective; the text is about the caller.
/// UsageError for a model that cannot be trained or an impossible schedule, or too little memory.
std::string kernel_table(RankContext& context, const Options& options, const MachineShape& machine);
/// The same on a device that is there, with ceilings measured at other sizes (tests).
std::string kernel_table(RankContext& context, const Options& options, BenchDevice& device, const RateSizes& sizes);

}  // namespace tessera
