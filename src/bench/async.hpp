#pragma once
// The part of `tessera bench checkpoint` that measures asynchronous checkpoints.

#include <filesystem>
#include <string>

#include "tessera/resolve/resolved_run.hpp"

namespace tessera {

/// Trains a session with checkpoint.async and makes bench.steps checkpoints into `folder`. Returns lines for rank 0:
/// how long steps waited, also as a share of `in_the_step` (seconds of a checkpoint without async), the time of the
/// writing, and its cost to the concurrent steps. Collective.
std::string bench_async_checkpoints(World& world, const Options& options, const MachineShape& machine,
                                    const std::filesystem::path& folder, double in_the_step);

}  // namespace tessera
