#pragma once
// `tessera bench comm`.

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

/// Collective; rank 0 prints a table. Returns the exit code.
int run_bench_comm(World& world, const Options& options);

}  // namespace tessera
