#pragma once
// `tessera bench checkpoint`.

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

/// Measures checkpoints of the options' run, bench.steps times: write, load at the same shape, load at another one.
/// Compares them with plain sequential writes (with fsync) and cold reads of the same bytes on the same disk. Then
/// measures how long steps wait for asynchronous checkpoints (checkpoint.async). Writes under run.dir, which must not
/// exist, or a new folder in runs/, and removes it. Collective; rank 0 prints a table. Returns the exit code.
int run_bench_checkpoint(World& world, const Options& options);

}  // namespace tessera
