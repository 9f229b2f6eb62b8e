#pragma once
// The table of `tessera bench comm`.

#include "bench/result.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/config/options.hpp"
#include "tessera/training/session.hpp"

namespace tessera {

/// Measures Tessera's communicators over the world, made as a training session makes them, and compares them with
/// `reference`: MPI's own collectives over the same ranks in the same order, which may use any buffer. Collective, with
/// at least two ranks; the same result on all of them.
BenchResult comm_table(RankContext& context, const Options& options, const MachineShape& machine,
                       Communicator& reference);

}  // namespace tessera
