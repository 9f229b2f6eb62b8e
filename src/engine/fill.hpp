#pragma once
// Regions filled with the pattern of unwritten memory, so that what is written there shows.

#include <initializer_list>

#include "tessera/engine/resources.hpp"

namespace tessera {

/// Returns whether a storage is state at rest, which starts as zeros and which every step changes. Constants are at
/// rest too, and are written once.
inline bool is_state(const Storage& storage) {
  return storage.region == RegionKind::at_rest && storage.carried && storage.category != Category::workspace;
}

/// Fills memory at rest of these spaces. State is zeroed again, as fresh memory is. Before the state is set.
void fill_at_rest(const Resources& all, const StepSchedule& schedule, std::initializer_list<MemorySpace> spaces);

/// Fills the private and the shared region of these spaces, the device's as work of `stream`. Once collectives have
/// been tried on them, and before anything is played.
void fill_passing(const Resources& all, Stream& stream, std::initializer_list<MemorySpace> spaces);

}  // namespace tessera
