#pragma once
// The table of `tessera bench kernels`.

#include "bench/device.hpp"
#include "bench/machine_rates.hpp"
#include "bench/result.hpp"

namespace tessera {

/// Measures every kernel of the options' training step on all ranks at once. Collective; the result is the caller's.
/// Throws UsageError for a model that cannot be trained, an impossible schedule, or too little memory.
BenchResult kernel_table(RankContext& context, const Options& options, const MachineShape& machine);
/// The same on an open device, with ceilings measured at other sizes (tests).
BenchResult kernel_table(RankContext& context, const Options& options, BenchDevice& device, const RateSizes& sizes);

}  // namespace tessera
