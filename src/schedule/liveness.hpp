#pragma once
// Which storages hold something that is still needed at the borders of a segment, over all its plays.

#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// How a storage is present in a segment: from a content's maker, or the segment's start, to the content's last reader,
/// or the segment's end.
struct Presence {
  StorageId storage;
  bool live_at_entry = false, live_at_exit = false;  ///< in some play
  std::vector<OperationId> touches;                  ///< operations that touch it in that time, ascending

  /// Returns the operations of the segment between which it holds something.
  OperationId first_in(const Segment& segment) const {
    return live_at_entry || touches.empty() ? segment.first : touches.front();
  }
  OperationId last_in(const Segment& segment) const {
    return live_at_exit || touches.empty() ? segment.last() : touches.back();
  }
};

/// Returns every storage that is present in a segment, ascending by storage. A storage that crosses borders is listed
/// once for each content that an operation writes afresh, because its memory is free between two of them. All others
/// are listed once.
IndexedVector<SegmentId, std::vector<Presence>> presence_of(const StepSchedule& schedule);

/// Fills Segment::carried_out: the last value of each carried storage that is live at the segment's exit.
void fill_carried_out(StepSchedule& schedule);

/// Returns what is alive while each operation of a segment runs, in list order, and 0 behind the last one.
/// `bytes_of(storage)`: what a storage counts for.
template <class BytesOf>
std::vector<std::int64_t> alive_in(const Segment& segment, const std::vector<Presence>& present, BytesOf bytes_of) {
  std::vector<std::int64_t> alive(static_cast<std::size_t>(segment.count) + 1, 0);
  for (const Presence& p : present) {
    const std::int64_t bytes = bytes_of(p.storage);
    alive[static_cast<std::size_t>(p.first_in(segment) - segment.first)] += bytes;
    alive[static_cast<std::size_t>(p.last_in(segment) - segment.first) + 1] -= bytes;
  }
  std::partial_sum(alive.begin(), alive.end(), alive.begin());
  return alive;
}

/// The memory in use while each operation of a segment runs, in list order, and where each use ends.
class SegmentLife {
 public:
  /// `present`: the segment's element of presence_of().
  SegmentLife(const StepSchedule& schedule, const Segment& segment, const std::vector<Presence>& present);

  /// Returns the bytes in use on the device while an operation of the segment runs.
  std::int64_t alive_bytes(OperationId id) const;
  /// Returns whether a storage is free after an operation, the last one that touches it.
  bool releases(OperationId id, StorageId storage) const;

 private:
  OperationId first_;
  std::vector<std::int64_t> alive_;
  std::set<std::pair<StorageId, OperationId>> released_by_;
};

/// What an operation reads, leaves behind and releases.
struct OperationNames {
  std::vector<std::string> reads, writes, releases;
};
/// Returns it by `name`. Several values of one name are listed once, and released together.
OperationNames names_of(const StepSchedule& schedule, const SegmentLife& life, OperationId id,
                        const std::function<std::string(ValueId)>& name);

}  // namespace tessera
