#pragma once
// `tessera bench memory`.

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/training/invocation.hpp"

namespace tessera {

/// Trains a few steps of the options' run in every combination of strategy, recomputation and offload. Prints what was
/// planned, what of it was written, what is in use, and what the difference is. What the user gave of shard.strategy,
/// memory.checkpoint and shard.offload is not varied. Collective; rank 0 prints. Returns the exit code.
int run_bench_memory(World& world, const Options& options, const Invocation& invocation);

}  // namespace tessera
