#pragma once
// `tessera bench kernels`.

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/training/invocation.hpp"

namespace tessera {

/// Measures every kernel of the options' training step and its share of the step's kernel time. Compares it with the
/// matmul rate and the copy rate of this machine in the same run. Collective; rank 0 prints a table. Returns the exit
/// code.
int run_bench_kernels(World& world, const Options& options, const Invocation& invocation);

}  // namespace tessera
