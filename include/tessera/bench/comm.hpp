#pragma once
// `tessera bench comm`.

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/training/invocation.hpp"

namespace tessera {

/// all_gather, reduce_scatter and all_reduce over the world, of bench.sizes or 1 KiB to bench.max_bytes: our
/// communicators beside MPI's own collectives in the same run, in nccl-tests' terms. Collective; rank 0 prints a table,
/// which also goes to bench.output, as those of the other benches. Returns the exit code.
int run_bench_comm(World& world, const Options& options, const Invocation& invocation);

}  // namespace tessera
