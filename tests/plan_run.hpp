#pragma once
// The plan of options as a run makes it, without its other steps.

#include "tessera/schedule/planned_run.hpp"
#include "tessera/schedule/verify.hpp"

namespace tessera::testing {

/// Plans a run, and verifies the schedule.
inline PlannedRun plan_run(const Options& options, const Architecture& architecture, std::int64_t world,
                           std::int64_t ranks_per_node) {
  PlannedRun run = plan_shape(run_shape(options, {architecture, world, ranks_per_node}));
  require_verified(run.schedule, run.plan);
  return run;
}

}  // namespace tessera::testing
