#pragma once
// Whether a run keeps its newest checkpoint near (checkpoint.keep_near).

#include <string>

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/schedule/planned_run.hpp"

namespace tessera {

/// Decides before the run allocates its memory, and sets checkpoint.keep_near = none if copies do not fit. `auto` wants
/// memory on every node for the files of two checkpoints in addition to the ranks' plans; a folder is taken as it is.
/// Returns a line for the log, empty for `none`. Collective.
std::string decide_near(World& world, Options& options, const PlannedRun& planned);

/// Returns why a node lacks the memory, or nothing. Sizes in bytes: what two checkpoints take there, what its ranks'
/// plans take, what the system and its control groups leave, and the free space of kMemoryFolder.
std::string lack_of_memory(std::int64_t near, std::int64_t plans, std::int64_t usable, std::int64_t space);

}  // namespace tessera
