#pragma once
// What of the planned memory is really there, by category.

#include "tessera/engine/resources.hpp"

namespace tessera {

/// Bytes of each category's storages that are there on this rank: the union of the addresses of all storages of the
/// category, as far as their pages are in memory (telemetry/process_memory.hpp), and on a GPU as far as they no longer
/// hold the pattern that they were filled with (Device::touched_bytes; state at rest was zeroed, hence counts whole). A
/// measurement of touched memory, not of a moment: storages that are never alive together share addresses, within a
/// category and across categories. So a category may be above its own planned peak (its storages lie at several places
/// that others use in between), and all of them together are more than the process holds. -1 where the kernel does not
/// tell, and for what lies on a GPU that was not filled. Not while a segment is played.
CategoryBytes measured_bytes(const StepSchedule& schedule, const Resources& resources);

}  // namespace tessera
