#pragma once
// Happens-before inside one segment: the closure of lane order and of the edges that the engine waits for. Segment
// borders join the lanes, so between segments the order is total.

#include <array>
#include <cstdint>
#include <vector>

#include "tessera/schedule/schedule.hpp"

namespace tessera {

class SegmentOrder {
 public:
  SegmentOrder(const StepSchedule& schedule, const Segment& segment);

  /// Operation a has finished before operation b starts, in every legal play.
  bool before(OperationId a, OperationId b) const { return last_before(b)[lane(a)] >= a; }

  /// All of `earlier` happen before all of `later`.
  bool all_before(const std::vector<OperationId>& earlier, const std::vector<OperationId>& later) const;

  /// From this operation on, in list order, every operation of the segment has all of `earlier` before it.
  OperationId all_after(const std::vector<OperationId>& earlier) const;

 private:
  using Clock = std::array<OperationId, kLanes>;

  const Clock& last_before(OperationId b) const { return clocks_[static_cast<std::size_t>(b - first_)]; }
  std::size_t lane(OperationId a) const { return lanes_[static_cast<std::size_t>(a - first_)]; }

  OperationId first_ = 0;
  /// Per operation b and lane: the last operation of the lane that is before b (-1: none). A lane is first-in
  /// first-out, so all earlier ones of it are before b too.
  std::vector<Clock> clocks_;
  std::vector<std::uint8_t> lanes_;
  std::array<std::vector<OperationId>, kLanes> of_lane_;  ///< operations of each lane, in order
};

}  // namespace tessera
