#pragma once
// The kernel calls that update a unit: the direction of its matrices, their orthogonal ones, and the update itself.

#include "tessera/engine/bound_schedule.hpp"

namespace tessera {

/// Binds an update, direction or orthogonalize.
void bind_update(const StepSchedule& schedule, const Resources& resources, const Optimizer& optimizer,
                 const Operation& op, BoundOperation& bound);

}  // namespace tessera
