#pragma once
// The prices of this machine, as `tessera bench calibrate` measures them.

#include "bench/kernel_ladder.hpp"
#include "tessera/resolve/machine.hpp"

namespace tessera {

/// Returns the sizes that suit a device, so that a calibration takes less than a minute.
LadderSizes ladder_sizes(DeviceKind device, const MachineShape& machine);

/// Measures on all ranks at once, and on cores on one alone as well, in fp32, bf16 and precision.compute. One rank has
/// no prices of collectives. Collective; the result is rank 0's.
Cluster calibrate(RankContext& context, const Options& options, const MachineShape& machine, const LadderSizes& sizes);

}  // namespace tessera
