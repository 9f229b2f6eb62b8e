#pragma once
// The values that a micro-step computes, as opposed to those that it moves, sums over ranks or keeps.

#include <vector>

#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// A value that an operation has made, as it is when the operation ends.
struct MadeValue {
  OperationId operation;
  ValueId value;
};

/// Returns what forward, recomputation and backward of a segment make, in list order: activations and their gradients,
/// values saved for backward, and the gradient of each unit, once the last part has added to it.
std::vector<MadeValue> made_values(const StepSchedule& schedule, SegmentId segment);

/// Returns how many of a value's elements are numbers of its type, which an operation has written. Behind them there
/// may be gaps, which nobody writes, and what goes with them, as the factor of codes or the sums of a gradient.
std::int64_t numbers_of(const StepSchedule& schedule, const Value& value);

}  // namespace tessera
