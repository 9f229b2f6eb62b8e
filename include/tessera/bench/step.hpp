#pragma once
// `tessera bench step` and `tessera bench memory`: whole training steps, timed; planned against measured memory.

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/training/invocation.hpp"

namespace tessera {

/// Trains bench.warmup + bench.steps steps of the options' run without writing anything and reports the median step
/// time with its quartiles, tokens/s, where the time goes, and the rate of the model's FLOPs beside the matrix-product
/// rate that this machine reaches in the same run. Collective; rank 0 prints.
int run_bench_step(World& world, const Options& options, const Invocation& invocation);

/// Trains a few steps and prints, per rank, planned bytes beside the growth of the process's proportional set size; on
/// a GPU beside the growth of what is in use there (libraries' own memory, and that of ranks that share it, included).
int run_bench_memory(World& world, const Options& options, const Invocation& invocation);

}  // namespace tessera
