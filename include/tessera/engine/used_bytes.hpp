#pragma once
// How much of the planned memory a run really uses: which pieces it writes, and how many bytes per category.

#include <array>
#include <map>
#include <string>
#include <vector>

#include "tessera/engine/resources.hpp"

namespace tessera {

/// One memory space's regions: planned bytes, and those that were written.
struct SpaceUse {
  std::int64_t planned = 0;
  std::int64_t used = -1;                      ///< -1: not known, as on a GPU's machine
  std::map<std::string, std::int64_t> unused;  ///< the rest, by the name of a storage that is there; "" for none
};

/// Examines a session whose regions were filled with a pattern (ResourceSettings::fill), once it has played everything:
/// steps, evaluations, a snapshot. A piece (256 bytes, the unit of planning) that no longer holds the pattern was used.
/// State at rest started as zeros, so one more step examines it: every piece of it has to change. Padding of units
/// counts as used.
class UsedBytes {
 public:
  /// Adds to the optimizer's states, so that the next update changes every element of the state, and keeps a copy of
  /// the state. Between steps; the rate must be above 0. References must outlive the object.
  UsedBytes(const StepSchedule& schedule, const Resources& resources);

  /// Returns the use of each memory space, after one more step, and one more snapshot if there are any. Training cannot
  /// go on from there.
  std::array<SpaceUse, kMemorySpaces> read() const;

 private:
  SpaceUse read(MemorySpace space) const;

  const StepSchedule& schedule_;
  const Resources& resources_;
  std::map<StorageId, std::vector<std::byte>> state_;
};

/// Returns the bytes of each category's storages that are in use on this rank. It counts the union of the addresses of
/// a category's storages, as far as their pages are in memory (telemetry/process_memory.hpp). On a GPU, it counts only
/// those that no longer hold the pattern that they were filled with (Device::touched_bytes). State at rest was zeroed,
/// so it counts in full. This measures touched memory, not a moment: storages that are never alive together share
/// addresses, within a category and across categories. So a category may exceed its own planned peak, because its
/// storages are at several addresses that others use in between, and all categories together are more than the process
/// holds. -1 if the kernel does not tell, and for memory of a GPU that was not filled. Not while a segment is played.
CategoryBytes measured_bytes(const StepSchedule& schedule, const Resources& resources);

}  // namespace tessera
