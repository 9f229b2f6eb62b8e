#pragma once
// run.trace: the measurements of every rank in some steps, as one file for Perfetto.

#include <filesystem>

#include "tessera/comm/rank_context.hpp"
#include "tessera/config/options.hpp"
#include "tessera/engine/step_trace.hpp"

namespace tessera {

/// Collects a session's trace on rank 0, rank by rank, and writes the steps that it `played` as FOLDER/steps-A-B.json.
/// Clocks of other machines are first compared with rank 0's. The file gets its name only when it is complete. Returns
/// its path on rank 0. Throws IoError on rank 0 alone, after all ranks' parts were received. Collective.
std::filesystem::path write_trace(RankContext& context, const StepSchedule& schedule, QueueMode queues,
                                  const StepTrace& trace, const StepRange& played, const std::filesystem::path& folder);

}  // namespace tessera
