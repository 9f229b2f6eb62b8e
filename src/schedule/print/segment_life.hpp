#pragma once
// The memory in use while each operation of a segment runs, in list order, and where each use ends.

#include <set>
#include <utility>

#include "schedule/liveness.hpp"

namespace tessera {

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

}  // namespace tessera
