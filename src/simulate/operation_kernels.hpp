#pragma once
// The kernels that each operation of a schedule calls.

#include <vector>

#include "tessera/config/options.hpp"
#include "tessera/kernels/kernel_call.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// Binds the schedule to rank 0 as the engine does, with addresses but without memory, and looks at the calls.
IndexedVector<OperationId, std::vector<KernelCall>> kernels_of(const StepSchedule& schedule, const MemoryPlan& plan,
                                                               const Options& options);

}  // namespace tessera
