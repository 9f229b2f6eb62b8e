#pragma once
// The algorithms of a run's matmuls, timed before it begins (run.algorithms = auto).

#include <string>

#include "tessera/resolve/machine.hpp"

namespace tessera {

/// Times all algorithms of a training's matmuls on this rank's GPU, in the memory of one block, and returns their
/// table. Collective. UsageError if there is too little memory.
std::string timed_algorithms(RankContext& context, const Options& options, const MachineShape& machine);

}  // namespace tessera
