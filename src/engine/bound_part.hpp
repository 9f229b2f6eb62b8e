#pragma once
// The kernel calls of a forward, recompute or backward of a part, at a rank's addresses.

#include <vector>

#include "tessera/engine/resources.hpp"
#include "tessera/kernels/kernels.hpp"

namespace tessera {

/// Returns those of an operation in a segment of that role.
std::vector<KernelArguments> part_kernels(const StepSchedule& schedule, const Resources& resources, SegmentRole role,
                                          const Operation& op);

}  // namespace tessera
