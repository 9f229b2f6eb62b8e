#pragma once
// The work of each operation of a schedule: the kernels that it calls, the bytes that it sends and copies.

#include <string_view>
#include <vector>

#include "tessera/config/options.hpp"
#include "tessera/kernels/observed_kernels.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/schedule.hpp"

namespace tessera {

struct OperationWork {
  std::vector<KernelCall> kernels;
  std::string_view collective;  ///< "all-gather", "reduce-scatter", "all-reduce", "exchange"; empty: none
  std::int64_t ranks = 1;       ///< of the collective's group
  bool within_node = true;
  std::int64_t wire_bytes = 0;
  std::int64_t copied_bytes = 0;  ///< between device and host
};

/// Binds the schedule to rank 0 as the engine does, with addresses but without memory, and runs each operation over
/// kernels that only note what they are asked for.
IndexedVector<OperationId, OperationWork> work_of(const StepSchedule& schedule, const MemoryPlan& plan,
                                                  const Options& options);

}  // namespace tessera
