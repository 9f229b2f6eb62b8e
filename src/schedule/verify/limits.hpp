#pragma once
// The part of the verifier that knows what no data asks for: how many units are whole at a time, and how far ahead.

#include <string>
#include <vector>

#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// Adds a sentence for each operation that starts earlier than the schedule's limits allow: more gathered units or more
/// gradients in flight than gather_limit and gradient_limit, or a gather further ahead of its reader than the prefetch
/// distance.
void check_limits(const StepSchedule& schedule, std::vector<std::string>& problems);

}  // namespace tessera
