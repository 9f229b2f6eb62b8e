#pragma once
// The builder: the one place where a sharding strategy is a set of rules. It is a pure function of the model's
// declaration, the grid's shape and the policy: it makes no ranks and touches no device.

#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// Builds the schedule. If nothing of the model trains, it has no steps: it is for evaluation or generation. Where the
/// grid has sub-groups, slices of gathered units stay after forward. Throws UsageError if the policy is impossible (a
/// limit below what one part reads).
StepSchedule build_schedule(const ModelParts& model, const ProcessGrid& grid, const SchedulePolicy& policy);

}  // namespace tessera
