#pragma once
// The part of the verifier for limits that no data requires: how many units are full at a time, and how far ahead.

#include <string>
#include <vector>

#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// Adds a sentence for each operation that starts earlier than the schedule's limits allow: too many units are gathered
/// (gather_limit), too many gradients are in flight (gradient_limit), or a gather is beyond the prefetch distance.
void check_limits(const StepSchedule& schedule, std::vector<std::string>& problems);

/// Does the same for inputs of recomputed blocks on the host (inputs_in_flight): too many wait to be copied out, or any
/// does while the head computes; too many are back, or one is back before its turn.
void check_inputs_in_flight(const StepSchedule& schedule, std::vector<std::string>& problems);

}  // namespace tessera
