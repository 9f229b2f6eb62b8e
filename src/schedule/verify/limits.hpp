#pragma once
// The part of the verifier that knows what no data asks for: how many units are full at a time, and how far ahead.

#include <string>
#include <vector>

#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// Adds a sentence for each operation that starts earlier than the schedule's limits allow. Too many units are gathered
/// (gather_limit) or gradients in flight (gradient_limit), or a gather is further ahead than the prefetch distance.
void check_limits(const StepSchedule& schedule, std::vector<std::string>& problems);

/// Does the same for inputs of recomputed blocks on the host (inputs_in_flight). Too many wait to go out, or any while
/// the head computes. Too many are back, or one before its turn.
void check_inputs_in_flight(const StepSchedule& schedule, std::vector<std::string>& problems);

}  // namespace tessera
