#pragma once
// Times of a GPU's operations by events on its streams, for steps that are played operation by operation.

#include <memory>
#include <vector>

#include "tessera/backend/device.hpp"
#include "tessera/engine/categories.hpp"
#include "tessera/engine/player.hpp"

namespace tessera {

/// Compute's stream tells it all: between the end of one operation and the start of the next it waits, for what the
/// next one waits for; behind the last one, for the segment's border.
class Player::DeviceTimes {
 public:
  DeviceTimes(Device& device, const StepSchedule& schedule) : device_(device), s_(schedule) {
    for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
      begin_.push_back(device.make_event(EventUse::timing));
      end_.push_back(device.make_event(EventUse::timing));
    }
    segment_begin_ = device.make_event(EventUse::timing);
    segment_end_ = device.make_event(EventUse::timing);
  }

  void begin_segment(Stream& compute) { compute.record(*segment_begin_); }
  void end_segment(Stream& compute) { compute.record(*segment_end_); }
  void begin(OperationId id, Stream& stream) { stream.record(*begin_[static_cast<std::size_t>(id)]); }
  void end(OperationId id, Stream& stream) { stream.record(*end_[static_cast<std::size_t>(id)]); }

  /// Adds a segment's times, when all of it is done. `on_compute` tells which operations ran on compute's stream, and
  /// `waits` what an operation waited for on others.
  template <class OnCompute, class Waits>
  void collect(const Segment& segment, StepTimes& times, OnCompute&& on_compute, Waits&& waits) {
    Event* last = segment_begin_.get();
    OperationId tail = -1;  // the last operation beside compute
    for (OperationId id = segment.first; id < segment.first + segment.count; ++id) {
      const Operation& op = s_.operation(id);
      if (op.kind == OperationKind::load) continue;
      if (!on_compute(id)) {
        tail = id;
        continue;
      }
      const std::vector<OperationId>& others = waits(id);
      const TimeCategory waited = others.empty() ? category_of(s_, op) : category_of(s_, s_.operation(others.back()));
      times.add(waited, device_.nanoseconds_between(*last, *begin_[static_cast<std::size_t>(id)]));
      last = end_[static_cast<std::size_t>(id)].get();
      times.add(category_of(s_, op), device_.nanoseconds_between(*begin_[static_cast<std::size_t>(id)], *last));
    }
    const TimeCategory border = tail < 0 ? TimeCategory::exposed_other : category_of(s_, s_.operation(tail));
    times.add(border, device_.nanoseconds_between(*last, *segment_end_));
  }

 private:
  Device& device_;
  const StepSchedule& s_;
  std::vector<std::unique_ptr<Event>> begin_, end_;
  std::unique_ptr<Event> segment_begin_, segment_end_;
};

}  // namespace tessera
