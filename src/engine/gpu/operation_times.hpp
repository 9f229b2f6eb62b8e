#pragma once
// Times of a GPU's operations by events on its streams, for steps that are played operation by operation.

#include <memory>

#include "engine/queues.hpp"
#include "tessera/telemetry/step_times.hpp"

namespace tessera {

/// The compute stream shows all times. Between the end of one operation and the start of the next, it waits for what
/// the next one waits for. Behind the last one, it waits for the segment's border.
class OperationTimes {
 public:
  OperationTimes(const StepSchedule& schedule, Device& device, Queues& queues, const StreamOrder& order);

  void begin_segment() { queues_.compute().record(*segment_begin_); }
  void end_segment() { queues_.compute().record(*segment_end_); }
  void begin(OperationId id, Stream& stream) { stream.record(*begin_[id]); }
  void end(OperationId id, Stream& stream) { stream.record(*end_[id]); }

  /// Adds a segment's times, when all of it is done.
  void collect(const Segment& segment, StepTimes& times);

 private:
  const StepSchedule& schedule_;
  Device& device_;
  Queues& queues_;
  const StreamOrder& order_;
  IndexedVector<OperationId, std::unique_ptr<Event>> begin_, end_;
  std::unique_ptr<Event> segment_begin_, segment_end_;
};

}  // namespace tessera
