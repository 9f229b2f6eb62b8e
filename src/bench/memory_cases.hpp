#pragma once
// The combinations that `tessera bench memory` measures: strategy x recomputation x offload.

#include <string>
#include <vector>

#include "tessera/config/options.hpp"
#include "tessera/grid/strategy.hpp"

namespace tessera {

struct MemoryCase {
  Strategy strategy = Strategy::zero3;
  ActivationCheckpointing checkpoint = ActivationCheckpointing::none;
  Offload offload = Offload::none;
};

/// Returns all combinations, including those that do not go together. Values that the user gave for shard.strategy,
/// memory.checkpoint and shard.offload are kept.
std::vector<MemoryCase> memory_cases(const Options& options);

/// Returns the options of a combination's run, with defaults for those that it does not use. Selective recomputation
/// recomputes attention unless the options choose. The rate is constant and no samples are written, so that every step
/// changes the state and a session plays all of its plan.
Options case_options(const MemoryCase& one, const Options& options);

/// Returns "zero3, selective, optimizer".
std::string describe(const MemoryCase& one);

}  // namespace tessera
