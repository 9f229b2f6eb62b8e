#pragma once
// What a run tells its user before its first step.

#include <string>

#include "tessera/data/dataset.hpp"
#include "tessera/training/session.hpp"

namespace tessera {

/// Describes model, parameters, grid, strategy, memory per category, tokens per step, data: a few lines.
std::string account_before(const Options& options, const PlannedRun& planned, const Dataset& data,
                           TrainingSession& session, const MachineShape& machine);

}  // namespace tessera
