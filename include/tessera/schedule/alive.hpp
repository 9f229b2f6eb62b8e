#pragma once
// Which categories of memory are in use while each operation runs.

#include "tessera/schedule/memory_plan.hpp"

namespace tessera {

/// Returns the bytes of each category that hold something in a memory space while an operation runs, operations taken
/// in list order. Their sum is `alive_bytes` of the schedule as JSON.
IndexedVector<OperationId, CategoryBytes> alive_categories(const StepSchedule& schedule, MemorySpace space);

}  // namespace tessera
