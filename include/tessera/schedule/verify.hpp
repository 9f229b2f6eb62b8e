#pragma once
// The verifier proves a schedule before it runs. An interpreter over placements, coverage and versions plays two steps,
// snapshots and an evaluation, and checks every rule of the operations. Races, the limit on gathered units and the
// bytes on the wire are checked on the list itself.

#include <functional>
#include <string>
#include <vector>

#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// Called repeatedly by work that may take minutes; it throws to end that work.
using Poll = std::function<void()>;

/// Returns what is wrong, one sentence each, naming segment, operation and value; empty if the schedule is proven.
/// `poll` is called before each play because a step of a million micro-steps takes a minute.
std::vector<std::string> verify_schedule(const StepSchedule& schedule, const Poll& poll = {});

/// Calls verify_schedule and check_memory_plan; throws InternalError with the first problems if there are any.
void require_verified(const StepSchedule& schedule, const MemoryPlan& plan, const Poll& poll = {});

}  // namespace tessera
