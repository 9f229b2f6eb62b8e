#pragma once
// run.trace: what every rank measured in some steps, as one file for Perfetto.

#include <filesystem>

#include "tessera/config/options.hpp"
#include "tessera/schedule/schedule.hpp"
#include "tessera/training/session.hpp"

namespace tessera {

/// UsageError if run.trace covers more operations than a trace can hold.
void require_traceable(const StepRange& steps, const StepSchedule& schedule);

/// Collects the session's trace on rank 0, rank by rank, and writes it up to the session's last step as
/// FOLDER/steps-A-B.json. Clocks of other machines are compared with rank 0's first. The file has its name only when it
/// is complete. Returns its path on rank 0. IoError on rank 0 alone, once all ranks' parts were received. Collective.
std::filesystem::path write_trace(RankContext& context, const TrainingSession& session,
                                  const std::filesystem::path& folder);

}  // namespace tessera
