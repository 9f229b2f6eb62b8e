#pragma once
// `tessera bench comm`.

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

/// all_gather, reduce_scatter and all_reduce over the world, 1 KiB to bench.max_bytes: our communicators beside MPI's
/// own collectives in the same run, in nccl-tests' terms. Collective; rank 0 prints a table. Returns the exit code.
int run_bench_comm(World& world, const Options& options);

}  // namespace tessera
