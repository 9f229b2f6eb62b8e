#pragma once
// A step in the memory of one block. All blocks are alike, so one of them stands for all: a model need not fit into
// memory to have its kernels measured.

#include <cstdint>
#include <vector>

#include "tessera/schedule/planned_run.hpp"

namespace tessera {

/// Gives all blocks the storages of the first, and each storage memory of its own. Played as a whole, such a schedule
/// would compute nonsense; of operations that then touch the same storages, one may be played.
PlannedRun with_one_block(StepSchedule schedule);

struct CountedOperation {
  OperationId operation;
  std::int64_t count = 0;  ///< operations that do the same work on the same storages, this one included
};

/// Returns one operation of each kind that `plays` have, in the order of their first appearance.
std::vector<CountedOperation> counted_operations(const StepSchedule& schedule, const std::vector<Play>& plays);

}  // namespace tessera
