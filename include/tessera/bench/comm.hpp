#pragma once
// `tessera bench comm`.

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/training/invocation.hpp"

namespace tessera {

/// Measures all_gather, reduce_scatter and all_reduce over the world, of bench.sizes or 1 KiB to bench.max_bytes.
/// Compares Tessera's communicators with MPI's own collectives in the same run, in nccl-tests' terms. Collective; rank
/// 0 prints a table. All benches also write their tables to bench.output. Returns the exit code.
int run_bench_comm(World& world, const Options& options, const Invocation& invocation);

}  // namespace tessera
