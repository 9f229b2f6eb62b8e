#pragma once
// Happens-before inside one segment: the closure of queue order and of the edges that the engine waits for. Segment
// borders join the queues, so between segments the order is total.

#include <array>
#include <cstdint>
#include <vector>

#include "tessera/schedule/schedule.hpp"

namespace tessera {

class SegmentOrder {
 public:
  SegmentOrder(const StepSchedule& schedule, const Segment& segment);

  /// Returns whether operation a has finished before operation b starts, in every legal play.
  bool before(OperationId a, OperationId b) const { return last_before(b)[queue(a)] >= a; }

  /// Returns whether all of `earlier` happen before all of `later`.
  bool all_before(const std::vector<OperationId>& earlier, const std::vector<OperationId>& later) const;

  /// Returns the operation from which on, in list order, every operation of the segment has all of `earlier` before it.
  OperationId all_after(const std::vector<OperationId>& earlier) const;

 private:
  using Clock = std::array<OperationId, kQueues>;

  const Clock& last_before(OperationId b) const { return clocks_[static_cast<std::size_t>(b - first_)]; }
  std::size_t queue(OperationId a) const { return queues_[static_cast<std::size_t>(a - first_)]; }

  OperationId first_;
  /// Per operation b and queue: the last operation of the queue that is before b, if any. Because a queue is first-in
  /// first-out, all earlier operations of it are before b too.
  std::vector<Clock> clocks_;
  std::vector<std::uint8_t> queues_;
  std::array<std::vector<OperationId>, kQueues> of_queue_;  ///< operations of each queue, in order
};

}  // namespace tessera
