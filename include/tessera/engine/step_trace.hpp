#pragma once
// The measured spans of some steps on one rank (run.trace): when each operation ran, and when compute waited for which.

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/config/step_range.hpp"
#include "tessera/schedule/schedule.hpp"
#include "tessera/telemetry/step_times.hpp"

namespace tessera {

/// A stretch of time on one stream, in nanoseconds of this machine's steady clock. On a GPU, durations are the GPU's,
/// and each segment is placed at the host's time at which its first work was submitted.
struct TraceSpan {
  std::int64_t begin = 0, end = 0;
  std::int64_t step = 0;
  std::int32_t play = 0;  ///< index in StepSchedule::step
  OperationId operation;  ///< that ran, or that waited; none: the segment's end waited
  OperationId awaited;    ///< of a wait: what it waited for (itself: for its start alone); none: the operation ran
  TimeCategory category = TimeCategory::data;  ///< the category of the span if compute did it
  std::int8_t stream = 0;                      ///< 0 is the compute stream

  bool is_wait() const { return awaited || !operation; }
};

/// Room for the spans of steps `first` to `last`, taken at the start, so that recording allocates nothing.
class StepTrace {
 public:
  /// `schedule` must outlive the trace.
  StepTrace(const StepSchedule& schedule, std::int64_t first, std::int64_t last);

  std::int64_t first() const { return first_; }
  std::int64_t last() const { return last_; }
  bool wants(std::int64_t step) const { return first_ <= step && step <= last_; }

  /// Begins a step. One thread calls this and the next.
  void begin_step(std::int64_t step);
  /// Begins a segment. Spans are kept until its end if it is the next one of a wanted step; those of evaluations,
  /// snapshots and samples are not.
  void begin_play(SegmentId segment);
  /// Adds a span of the segment being played. Any thread.
  void add(TraceSpan span);

  /// Returns the spans so far, in no order. Not while a segment is played.
  std::span<const TraceSpan> spans() const;

  /// Returns the most spans that a step of the schedule has: its operations, and a wait for each other queue.
  static std::int64_t most_spans(const StepSchedule& schedule);

 private:
  const StepSchedule& schedule_;
  std::int64_t first_, last_;
  std::int64_t step_ = 0;
  std::int32_t play_ = -1;
  bool is_on_ = false;
  std::vector<TraceSpan> spans_;
  std::atomic<std::int64_t> used_{0};
};

/// UsageError if run.trace covers more operations than a trace can hold.
void require_traceable(const StepRange& steps, const StepSchedule& schedule);

}  // namespace tessera
