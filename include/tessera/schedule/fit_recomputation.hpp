#pragma once
// memory.checkpoint = fit: the cheapest recomputation with which a run fits; and what a recomputation pays.

#include <cstdint>

#include "tessera/schedule/planned_run.hpp"

namespace tessera {

/// Returns the FLOPs that a rank recomputes in a step.
std::int64_t recomputed_flops(const StepSchedule& schedule);

/// Returns the recomputation of fewest FLOPs with which the run fits `allowed` bytes a rank (limited_bytes). None, or
/// one half or both of some of the blocks, evenly spread; all of every block where nothing fits.
Recomputation fitting_recomputation(const RunShape& shape, std::int64_t allowed);

/// Returns the options with memory.checkpoint = fit decided for this limit, as if its choice had been given. Others
/// stay as they are. UsageError without a limit (0).
Options with_fitting_recomputation(Options options, const Architecture& architecture, std::int64_t world,
                                   std::int64_t ranks_per_node, std::int64_t allowed);

}  // namespace tessera
