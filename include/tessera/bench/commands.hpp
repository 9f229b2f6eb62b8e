#pragma once
// The subcommands `tessera bench WHAT`. Collective; rank 0 prints a table. All except bench checkpoint
// and bench calibrate also write their tables to bench.output. Each returns the exit code.

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/record/run_facts.hpp"

namespace tessera {

/// Measures the prices of this machine (simulate/cluster.hpp) for at most a minute and writes them to bench.output, a
/// cluster file, which must be named and not exist. One rank has no prices of collectives.
int run_bench_calibrate(World& world, const Options& options);

/// Measures checkpoints of the options' run, bench.steps times: write, load at the same shape, load at another one.
/// Compares them with plain sequential writes (with fsync) and cold reads of the same bytes on the same disk. Then
/// measures how long steps wait for asynchronous checkpoints (checkpoint.async). Writes under run.dir, which must not
/// exist, or into a new folder in runs/, and removes it.
int run_bench_checkpoint(World& world, const Options& options);

/// Measures all_gather, reduce_scatter and all_reduce over the world, of bench.sizes or 1 KiB to bench.max_bytes.
/// Compares Tessera's communicators with MPI's own collectives in the same run, in nccl-tests' terms.
int run_bench_comm(World& world, const Options& options, const Invocation& invocation);

/// Measures every kernel of the options' training step and its share of the step's kernel time, and compares it with
/// the matmul rate and the copy rate of this machine in the same run.
int run_bench_kernels(World& world, const Options& options, const Invocation& invocation);

/// Trains bench.warmup + bench.steps steps of the options' run without writing anything. Reports the median step time
/// with its quartiles, tokens/s, and where the time goes. Compares the rate of the model's FLOPs with the matmul rate
/// of this machine in the same run.
int run_bench_step(World& world, const Options& options, const Invocation& invocation);

}  // namespace tessera
