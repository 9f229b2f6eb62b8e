#pragma once
// `tessera bench step`: whole training steps, timed.

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/training/invocation.hpp"

namespace tessera {

/// Trains bench.warmup + bench.steps steps of the options' run without writing anything. Reports the median step time
/// with its quartiles, tokens/s, and where the time goes. Compares the rate of the model's FLOPs with the matmul rate
/// of this machine in the same run. Collective; rank 0 prints.
int run_bench_step(World& world, const Options& options, const Invocation& invocation);

}  // namespace tessera
