#pragma once
// `tessera bench kernels`.

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/training/invocation.hpp"

namespace tessera {

/// Every kernel of the options' training step beside the matrix-product rate and the copy rate that this machine
/// reaches in the same run, and its share of the step's kernel time. Collective; rank 0 prints a table. Returns the
/// exit code.
int run_bench_kernels(World& world, const Options& options, const Invocation& invocation);

}  // namespace tessera
