#include "engine/gpu/operation_times.hpp"

#include <algorithm>
#include <map>

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

void OperationTimes::begin_segment() {
  started_ = steady_nanoseconds();
  queues_.compute().record(*segment_begin_);
}

/// The spans of the compute stream follow each other without gaps; those of other streams are where their events are.
void OperationTimes::collect(const Segment& segment, OperationLog& log) {
  const auto between = [&](Event& begin, Event& end) { return device_.nanoseconds_between(begin, end); };
  std::map<int, std::int64_t> ends;  // by stream: rounded times must not let spans overlap
  std::int64_t now = started_;
  const auto pass = [&](std::int64_t nanoseconds) {
    now += nanoseconds;
    return now - nanoseconds;
  };
  Event* last = segment_begin_.get();
  OperationId tail;  // the last operation on another stream
  for (const OperationId id : segment.operations()) {
    const Operation& op = schedule_.operation(id);
    if (takes_input(op)) continue;
    const std::int64_t length = between(*begin_[id], *end_[id]);
    if (!queues_.on_compute(op.queue)) {
      tail = id;
      const int stream = queues_.stream_number(op.queue);
      const std::int64_t begin = std::max(started_ + between(*segment_begin_, *begin_[id]), ends[stream]);
      ends[stream] = begin + length;
      log.ran(id, stream, begin, ends[stream]);
      continue;
    }
    const std::vector<OperationId>& others = order_.waits(id);
    const std::int64_t idle = pass(between(*last, *begin_[id]));
    log.waited(id, others.empty() ? id : others.back(), idle, now);
    const std::int64_t begin = pass(length);
    log.ran(id, 0, begin, now);
    last = end_[id].get();
  }
  const std::int64_t border = pass(between(*last, *segment_end_));
  log.waited({}, tail, border, now);
}

}  // namespace tessera
