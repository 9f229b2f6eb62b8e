#pragma once
// The kernel calls of a forward, recompute or backward of a part, at a rank's addresses.

#include <vector>

#include "tessera/engine/bound_schedule.hpp"

namespace tessera {

struct PartOperation {
  const StepSchedule& schedule;
  const Resources& resources;
  const BoundSchedule& bound;  ///< for its scalars and sums
  SegmentRole role;
  const Operation& op;
};

std::vector<KernelArguments> part_kernels(const PartOperation& operation);

}  // namespace tessera
