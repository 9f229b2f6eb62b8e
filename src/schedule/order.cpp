#include "schedule/order.hpp"

#include <algorithm>

namespace tessera {

SegmentOrder::SegmentOrder(const StepSchedule& schedule, const Segment& segment) : first_(segment.first) {
  Clock none;
  none.fill({});
  Clock last = none;
  clocks_.assign(static_cast<std::size_t>(segment.count), none);
  for (const OperationId id : segment.operations()) {
    queues_.push_back(static_cast<std::uint8_t>(schedule.operation(id).queue));
    of_queue_[queue(id)].push_back(id);
  }
  for (const OperationId id : segment.operations()) {
    Clock& mine = clocks_[static_cast<std::size_t>(id - first_)];
    const auto inherit = [&](OperationId other) {
      if (other < first_) return;
      const Clock& theirs = last_before(other);
      for (std::size_t l = 0; l < mine.size(); ++l) mine[l] = std::max(mine[l], theirs[l]);
      mine[queue(other)] = std::max(mine[queue(other)], other);
    };
    inherit(last[queue(id)]);
    for (const OperationId other : waits_of(schedule, id)) inherit(other);
    last[queue(id)] = id;
  }
}

bool SegmentOrder::all_before(const std::vector<OperationId>& earlier, const std::vector<OperationId>& later) const {
  return std::ranges::all_of(
      later, [&](OperationId b) { return std::ranges::all_of(earlier, [&](OperationId a) { return before(a, b); }); });
}

OperationId SegmentOrder::all_after(const std::vector<OperationId>& earlier) const {
  Clock last;
  last.fill({});
  for (const OperationId a : earlier) last[queue(a)] = std::max(last[queue(a)], a);
  OperationId from = first_;
  for (const auto& operations : of_queue_) {  // along a queue, the set of operations before an operation only grows
    const auto after = std::ranges::partition_point(operations, [&](OperationId b) {
      const Clock& before_b = last_before(b);
      for (std::size_t l = 0; l < last.size(); ++l) {
        if (before_b[l] < last[l]) return true;
      }
      return false;
    });
    if (after != operations.begin()) from = std::max(from, *std::prev(after) + 1);
  }
  return from;
}

}  // namespace tessera
