#pragma once
// `tessera bench checkpoint`.

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

/// Checkpoints of the options' run, bench.steps times, beside plain sequential writes (with fsync) and reads of the
/// same bytes on the same disk, cold: write, load at the same shape, load at another one; then checkpoints beside the
/// steps (checkpoint.async): how long steps wait. Writes under run.dir, which must not exist, or a new folder in runs/,
/// and removes it.
/// Collective; rank 0 prints a table. Returns the exit code.
int run_bench_checkpoint(World& world, const Options& options);

}  // namespace tessera
