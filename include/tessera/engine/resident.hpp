#pragma once
// What of the planned memory is really there, by category.

#include "tessera/engine/resources.hpp"

namespace tessera {

/// Bytes of each category's storages that are resident on this rank: the union of the addresses of all storages of the
/// category, as far as their pages are in memory (telemetry/process_memory.hpp). A measurement of touched memory, not
/// of a moment: storages that are never alive together share addresses, within a category and across categories. So a
/// category may be above its own planned peak (its storages lie at several places that others use in between), and all
/// of them together are more than the process holds. -1 where the kernel does not tell,
/// and on a GPU.
CategoryBytes resident_bytes(const StepSchedule& schedule, const Resources& resources);

}  // namespace tessera
