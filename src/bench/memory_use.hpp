#pragma once
// The memory of a run, planned and measured, as `tessera bench memory` measures it for each combination.

#include <array>
#include <string>
#include <vector>

#include "tessera/schedule/schedule.hpp"
#include "tessera/training/session.hpp"

namespace tessera {

/// Parts of a rank's memory that are in no plan. Cores: growth of mapped libraries, of the memory that MPI shares and
/// messages need, and of the heap (threads' scratch, bound schedule). A GPU: growth by kernels' libraries, by NCCL or
/// staging, and by rounding of allocations.
inline constexpr std::size_t kNamedParts = 3;
std::array<const char*, kNamedParts> named_parts(DeviceKind device);

/// One rank's memory in bytes. `in use` is the process's proportional set size on cores, and on a GPU the memory in use
/// by all processes.
struct RankMemoryUse {
  std::array<std::int64_t, kMemorySpaces> planned{};
  std::array<std::int64_t, kMemorySpaces> used{};  ///< written in the regions; -1: not known
  std::int64_t before = 0;                         ///< in use before the session: executable, libraries, MPI, data
  std::int64_t in_use = 0;                         ///< in use after training
  std::array<std::int64_t, kNamedParts> named{};
  std::int64_t left = 0;  ///< in use above `before` once the session is gone

  /// Returns the planned bytes that `in_use` counts; for a GPU, without the host's.
  std::int64_t planned_in_use(DeviceKind device) const;
  /// Returns the memory in use beyond what was there before, the plan and the named parts.
  std::int64_t unnamed(DeviceKind device) const;
};

struct MemoryUse {
  std::vector<RankMemoryUse> ranks;
  std::vector<std::string> unused;  ///< "12.3 kB of scratch" of rank 0's regions that was never written
};

/// Trains twice: as runs do, and with regions that are filled with a pattern first. Each time it plays at least two
/// steps, an evaluation if there is a validation set, and a snapshot if checkpoints are asynchronous. Collective; the
/// same result on all ranks.
MemoryUse measure_memory(RankContext& context, const ResolvedRun& run);

}  // namespace tessera
