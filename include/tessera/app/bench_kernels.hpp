#pragma once
// `tessera bench kernels`.

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

/// Collective; rank 0 prints a table. Returns the exit code.
int run_bench_kernels(World& world, const Options& options);

}  // namespace tessera
