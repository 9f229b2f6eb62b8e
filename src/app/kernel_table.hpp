#pragma once
// The table of `tessera bench kernels`.

#include <string>

#include "tessera/comm/rank_context.hpp"
#include "tessera/config/options.hpp"
#include "tessera/engine/session.hpp"

namespace tessera {

/// Measures every kernel of the options' training step on all ranks at once. Collective; the text is about the caller.
/// UsageError for a model that cannot be trained or an impossible schedule.
std::string kernel_table(RankContext& context, const Options& options, const MachineShape& machine);

}  // namespace tessera
