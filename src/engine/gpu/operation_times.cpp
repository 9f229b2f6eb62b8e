#include "engine/gpu/operation_times.hpp"

#include "tessera/engine/categories.hpp"

namespace tessera {

OperationTimes::OperationTimes(const StepSchedule& schedule, Device& device, Queues& queues, const StreamOrder& order)
    : schedule_(schedule), device_(device), queues_(queues), order_(order) {
  for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
    begin_.push_back(device.make_event(EventUse::timing));
    end_.push_back(device.make_event(EventUse::timing));
  }
  segment_begin_ = device.make_event(EventUse::timing);
  segment_end_ = device.make_event(EventUse::timing);
}

void OperationTimes::collect(const Segment& segment, StepTimes& times) {
  const auto category = [&](OperationId id) { return category_of(schedule_, schedule_.operation(id)); };
  Event* last = segment_begin_.get();
  OperationId tail;  // the last operation on another stream
  for (const OperationId id : segment.operations()) {
    const Operation& op = schedule_.operation(id);
    if (takes_tokens(op)) continue;
    if (!queues_.on_compute(op.queue)) {
      tail = id;
      continue;
    }
    const std::vector<OperationId>& others = order_.waits(id);
    times.add(category(others.empty() ? id : others.back()), device_.nanoseconds_between(*last, *begin_[id]));
    last = end_[id].get();
    times.add(category(id), device_.nanoseconds_between(*begin_[id], *last));
  }
  times.add(!tail ? TimeCategory::exposed_other : category(tail), device_.nanoseconds_between(*last, *segment_end_));
}

}  // namespace tessera
