#pragma once
// A schedule and its memory plan as text that depends only on their content.

#include <string>

#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/schedule.hpp"

namespace tessera::testing {

/// One line per item, in list order. Enumerators have this dump's own words, storages and values are numbered by their
/// first use, and it holds no names. So renaming and renumbering in the sources do not change it.
std::string dump_schedule(const StepSchedule& schedule, const MemoryPlan& plan);

}  // namespace tessera::testing
