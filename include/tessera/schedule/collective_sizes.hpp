#pragma once
// How much the collectives of a schedule move at a time.

#include <map>
#include <utility>

#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// The largest buffers that collectives touch, in bytes.
struct LargestBuffers {
  std::int64_t full = 0;    ///< gathered, contributed, or summed in place
  std::int64_t result = 0;  ///< written by a reduce_scatter
  std::map<std::pair<Queue, Group>, std::int64_t> contribution;
};

LargestBuffers largest_buffers(const StepSchedule& schedule);

}  // namespace tessera
