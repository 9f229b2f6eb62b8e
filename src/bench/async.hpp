#pragma once
// The part of `tessera bench checkpoint` that writes beside the steps.

#include <filesystem>
#include <string>

#include "tessera/training/prepare.hpp"

namespace tessera {

/// A session with checkpoint.async makes bench.steps checkpoints into `folder` while it trains. Returns lines for rank
/// 0: how long steps waited, as share of `in_the_step` (seconds of a checkpoint without async), how long the writing
/// went on, and what it cost the steps beside it. Collective.
std::string bench_async_checkpoints(World& world, const Options& options, const MachineShape& machine,
                                    const std::filesystem::path& folder, double in_the_step);

}  // namespace tessera
