#pragma once
// A schedule and its memory plan as text that depends on nothing but what they say.

#include <string>

#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/schedule.hpp"

namespace tessera::testing {

/// One line an item, in list order. Enumerators have words of this dump's own, storages and values are numbered by
/// their first use, and no name is in it: renaming and renumbering in the product leave it as it is.
std::string dump_schedule(const StepSchedule& schedule, const MemoryPlan& plan);

}  // namespace tessera::testing
