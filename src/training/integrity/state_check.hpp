#pragma once
// Finds bits of the state that changed by themselves, and replicas that differ (run.check_every). It is a pass between
// segments and not operations of the schedule, because it is rare, waits for the host, and compares by the control
// plane.

#include <memory>
#include <string>
#include <vector>

#include "tessera/engine/resources.hpp"

namespace tessera {

/// The checksums of a unit on one rank.
struct UnitSums {
  StateSums kept{};
  FoundSums found;
  std::int64_t first =
      0;  ///< element of the unit at which the rank's slice begins: ranks with the same one are replicas
};
using RankSums = IndexedVector<UnitId, UnitSums>;

/// Returns what differs, each with rank and host, unit and kind of state: memory that holds something else than its
/// updates wrote, then replicas. Those are judged by majority; without one, all of them are named. `units`: their
/// names.
std::vector<std::string> differences(const std::vector<std::string>& units, const std::vector<RankSums>& of_ranks,
                                     const std::vector<std::string>& hosts);

class StateCheck {
 public:
  /// Takes the state as it is in memory, before the first step, for right. Collective. Both must outlive this.
  StateCheck(const StepSchedule& schedule, Resources& resources);

  /// Compares memory with the sums that updates have kept, and with other ranks. Nothing may run meanwhile. Collective;
  /// returns the same on every rank.
  std::vector<std::string> differences();

 private:
  StateSums* kept(UnitId unit) const;
  void sum_up();

  const StepSchedule& schedule_;
  Resources& resources_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::string> hosts_;         ///< of all ranks
  IndexedVector<UnitId, ValueId> copies_;  ///< full parameters at rest next to the master, on several ranks
  RankSums sums_;
};

}  // namespace tessera
