#pragma once
// Regions filled with the pattern of unwritten memory, so that writes to them can be detected; and storages that are
// poisoned with NaN once nothing in a segment needs them any more (tests).

#include <initializer_list>

#include "tessera/engine/resources.hpp"

namespace tessera {

/// Returns whether a storage is state at rest, which starts as zeros and which every step changes. Constants are also
/// at rest, but they are written only once.
inline bool is_state(const Storage& storage) {
  return storage.region == RegionKind::at_rest && storage.carried && storage.category != Category::workspace;
}

/// Fills memory at rest of these spaces; state is zeroed again, like fresh memory. Call before the state is set.
void fill_at_rest(const Resources& all, const StepSchedule& schedule, std::initializer_list<MemorySpace> spaces);

/// Fills the private and the shared region of these spaces, the device's as work of `stream`. Call after collectives
/// have been tried on them, and before anything is played.
void fill_passing(const Resources& all, Stream& stream, std::initializer_list<MemorySpace> spaces);

/// Returns, for each operation, the storages that it touches and that do not outlive the segment: those to poison.
IndexedVector<OperationId, std::vector<StorageId>> passing_storages(const StepSchedule& schedule);

}  // namespace tessera
