#include "schedule/order.hpp"

#include <array>

namespace tessera {

SegmentOrder::SegmentOrder(const StepSchedule& schedule, const Segment& segment)
    : first_(segment.first), words_((segment.count + 63) / 64) {
  bits_.assign(static_cast<std::size_t>(segment.count * words_), 0);
  std::array<OperationId, kLanes> last;
  last.fill(-1);
  for (OperationId id = segment.first; id < segment.first + segment.count; ++id) {
    std::uint64_t* mine = &bits_[static_cast<std::size_t>((id - first_) * words_)];
    auto inherit = [&](OperationId other) {
      if (other < first_) return;
      const std::uint64_t* theirs = row(other);
      for (std::int64_t w = 0; w < words_; ++w) mine[w] |= theirs[w];
      const std::int64_t i = other - first_;
      mine[i / 64] |= std::uint64_t{1} << (i % 64);
    };
    const Operation& op = schedule.operation(id);
    inherit(last[static_cast<std::size_t>(op.lane)]);
    for (const OperationId other : waits_of(schedule, id)) inherit(other);
    last[static_cast<std::size_t>(op.lane)] = id;
  }
}

bool SegmentOrder::all_before(const std::vector<OperationId>& earlier, const std::vector<OperationId>& later) const {
  for (const OperationId b : later) {
    const std::uint64_t* before_b = row(b);
    for (const OperationId a : earlier) {
      if (!test(before_b, a - first_)) return false;
    }
  }
  return true;
}

}  // namespace tessera
