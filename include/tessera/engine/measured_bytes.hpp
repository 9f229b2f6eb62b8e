#pragma once
// How much of the planned memory is really in use, by category.

#include "tessera/engine/resources.hpp"

namespace tessera {

/// Returns the bytes of each category's storages that are in use on this rank. It counts the union of the addresses of
/// a category's storages, as far as their pages are in memory (telemetry/process_memory.hpp). On a GPU, it counts only
/// those that no longer hold the pattern that they were filled with (Device::touched_bytes). State at rest was zeroed,
/// so it counts in full. This measures touched memory, not a moment: storages that are never alive together share
/// addresses, within a category and across categories. So a category may exceed its own planned peak, because its
/// storages are at several addresses that others use in between, and all categories together are more than the process
/// holds. -1 if the kernel does not tell, and for memory of a GPU that was not filled. Not while a segment is played.
CategoryBytes measured_bytes(const StepSchedule& schedule, const Resources& resources);

}  // namespace tessera
