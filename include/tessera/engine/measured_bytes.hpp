#pragma once
// What of the planned memory is really there, by category.

#include "tessera/engine/resources.hpp"

namespace tessera {

/// Returns the bytes of each category's storages that are there on this rank. Counts the union of the addresses of a
/// category's storages, as far as their pages are in memory (telemetry/process_memory.hpp). On a GPU, counts only those
/// that no longer hold the pattern that they were filled with (Device::touched_bytes). State at rest was zeroed, hence
/// counts in full. This measures touched memory, not a moment: storages that are never alive together share addresses,
/// within a category and across categories. So a category may be above its own planned peak: its storages lie at
/// several addresses that others use in between. All categories together are more than the process holds. -1 where the
/// kernel does not tell, and for what lies on a GPU that was not filled. Not while a segment is played.
CategoryBytes measured_bytes(const StepSchedule& schedule, const Resources& resources);

}  // namespace tessera
