#pragma once
// The lines that a run prints for its user before its first step.

#include <string>

#include "tessera/data/dataset.hpp"
#include "tessera/engine/player.hpp"
#include "tessera/engine/resources.hpp"
#include "tessera/optimizer/run_length.hpp"
#include "tessera/resolve/machine.hpp"
#include "tessera/schedule/planned_run.hpp"

namespace tessera {

/// Returns "1.50 epochs", or of a mixture "chats 0.80 epochs, code 2.10 epochs".
std::string epochs_text(const Dataset& data, std::int64_t samples);

/// Describes model, parameters, grid, strategy, memory per category, tokens per step, data: a few lines. Call it on all
/// ranks at once: with offloaded state it times the host's AdamW, whose memory they share.
std::string account_before(const Options& options, const PlannedRun& planned, const Dataset& data,
                           const RunLength& length, const Resources& resources, const Player& player,
                           const MachineShape& machine);

}  // namespace tessera
