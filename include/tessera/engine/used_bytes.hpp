#pragma once
// Which of the planned memory a run writes, in pieces of 256 bytes, the unit in which it is planned.

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
/// steps, evaluations, a snapshot. A piece that no longer holds the pattern was used. State at rest started as zeros,
/// so one more step examines it: every piece of it has to change. Padding of units counts as used.
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

}  // namespace tessera
