#pragma once
// Times of a GPU's operations by events on its streams, for steps that are played operation by operation.

#include <memory>

#include "engine/queues.hpp"
#include "tessera/engine/operation_log.hpp"

namespace tessera {

/// The compute stream shows all times. Between the end of one operation and the start of the next, it waits for what
/// the next one waits for. After the last one, it waits for the segment's border.
class OperationTimes {
 public:
  OperationTimes(const StepSchedule& schedule, Device& device, Queues& queues, const StreamOrder& order);

  /// Call when the streams are empty, so that the host's time is that of the segment's start.
  void begin_segment();
  void end_segment() { queues_.compute().record(*segment_end_); }
  void begin(OperationId id, Stream& stream) { stream.record(*begin_[id]); }
  void end(OperationId id, Stream& stream) { stream.record(*end_[id]); }

  /// Notes a segment's times, when all of it is done.
  void collect(const Segment& segment, OperationLog& log);

 private:
  const StepSchedule& schedule_;
  Device& device_;
  Queues& queues_;
  const StreamOrder& order_;
  IndexedVector<OperationId, std::unique_ptr<Event>> begin_, end_;
  std::unique_ptr<Event> segment_begin_, segment_end_;
  std::int64_t started_ = 0;  ///< the host's clock, nanoseconds
};

}  // namespace tessera
