#pragma once
// Where an operation's time is booked.

#include "tessera/schedule/schedule.hpp"
#include "tessera/telemetry/step_times.hpp"

namespace tessera {

/// Returns the category of the time in which compute runs, or waits for, an operation.
TimeCategory category_of(const StepSchedule& schedule, const Operation& op);

}  // namespace tessera
