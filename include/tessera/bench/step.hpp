#pragma once
// `tessera bench step` and `tessera bench memory`: whole training steps, timed; planned against measured memory.

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/training/invocation.hpp"

namespace tessera {

/// Trains bench.warmup + bench.steps steps of the options' run without writing anything. Reports the median step time
/// with its quartiles, tokens/s, and where the time goes. Compares the rate of the model's FLOPs with the matmul rate
/// of this machine in the same run. Collective; rank 0 prints.
int run_bench_step(World& world, const Options& options, const Invocation& invocation);

/// Trains a few steps and prints planned bytes and measured growth per rank. On a CPU: growth of the process's
/// proportional set size. On a GPU: growth of the memory in use there, with the libraries' own and that of ranks that
/// share it.
int run_bench_memory(World& world, const Options& options, const Invocation& invocation);

}  // namespace tessera
