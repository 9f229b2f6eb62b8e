#pragma once
// Which storages hold something that is still wanted at the borders of a segment, over all its plays.

#include <vector>

#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// How a storage is present in a segment.
struct Presence {
  StorageId storage = -1;
  bool live_at_entry = false, live_at_exit = false;  ///< in some play
  std::vector<OperationId> touches;                  ///< operations that touch it, ascending

  /// Returns the operations of the segment from and up to which it holds something.
  OperationId first_in(const Segment& segment) const {
    return live_at_entry || touches.empty() ? segment.first : touches.front();
  }
  OperationId last_in(const Segment& segment) const {
    return live_at_exit || touches.empty() ? segment.first + segment.count - 1 : touches.back();
  }
};

/// Returns, per segment, every storage that is present in it, ascending by storage.
std::vector<std::vector<Presence>> presence_of(const StepSchedule& schedule);

/// Fills Segment::carried_out: the last value of each carried storage that is live at the segment's exit.
void fill_carried_out(StepSchedule& schedule);

}  // namespace tessera
