#pragma once
// Where players note times: the sums of /steps/time and the spans of run.trace come from the same clock readings.

#include <array>

#include "tessera/engine/step_trace.hpp"
#include "tessera/flight/recorder.hpp"
#include "tessera/schedule/schedule.hpp"
#include "tessera/telemetry/step_times.hpp"

namespace tessera {

/// Returns the category of the time in which compute runs, or waits for, an operation.
TimeCategory category_of(const Operation& op);

/// Returns the number of each queue's stream. The compute queue has stream 0. Communication has another for all its
/// queues, or one for each; one for all (`one_for_all`) is legal, because list order is issue order. Offloading has one
/// for each direction of the copies and one for the host's work (`copies`). In serial mode all share stream 0.
std::array<int, kQueues> stream_numbers(QueueMode mode, bool one_for_all, bool copies);

/// Returns the name of an operation: "gather h.3".
std::string operation_name(const StepSchedule& schedule, const Operation& op);

/// Returns the table of a flight recorder: all operations in list order, and then the segments, which a GPU replays.
std::vector<FlightOperation> flight_operations(const StepSchedule& schedule);

class OperationLog {
 public:
  /// `trace` and `flight` may be null. All must outlive the log.
  OperationLog(const StepSchedule& schedule, StepTrace* trace, FlightRecorder* flight)
      : schedule_(schedule), trace_(trace), flight_(flight) {}

  StepTimes& times() { return times_; }
  /// Sets whether what runs from now on counts in times(). Nothing may run meanwhile.
  void count_times(bool counts) { counts_ = counts; }
  /// Notes that untimed work was run.
  void leave_out() {
    if (counts_) times_.leave_out();
  }
  void begin_step(std::int64_t step) {
    if (trace_ != nullptr) trace_->begin_step(step);
  }
  void begin_play(SegmentId segment) {
    if (trace_ != nullptr) trace_->begin_play(segment);
  }

  /// Tells the flight recorder that an operation begins on a stream, or is done there.
  void begins(OperationId id, int stream, std::int64_t now) {
    if (flight_ != nullptr) flight_->begin(stream, id.number(), now);
  }
  void done(int stream, std::int64_t now) {
    if (flight_ != nullptr) flight_->end(stream, now);
  }

  /// Notes that an operation ran on a stream, 0 being the compute stream. Any thread. Nanoseconds, as below.
  void ran(OperationId id, int stream, std::int64_t begin, std::int64_t end) {
    const TimeCategory category = category_of(schedule_.operation(id));
    if (counts_) times_.add_operation(category, end - begin);
    if (counts_ && stream == 0) times_.add(category, end - begin);
    add({begin, end, 0, 0, id, {}, category, static_cast<std::int8_t>(stream)});
  }
  /// Notes that the compute stream waited for `awaited` before `id`, or before the segment's end (none). If `awaited`
  /// is `id` itself, or none, it was idle without waiting for another operation.
  void waited(OperationId id, OperationId awaited, std::int64_t begin, std::int64_t end) {
    const TimeCategory category = awaited ? category_of(schedule_.operation(awaited)) : TimeCategory::exposed_other;
    if (counts_) times_.add(category, end - begin);
    add({begin, end, 0, 0, id, awaited, category, 0});
  }

 private:
  void add(const TraceSpan& span) {
    if (trace_ != nullptr) trace_->add(span);
  }

  const StepSchedule& schedule_;
  StepTrace* trace_;
  FlightRecorder* flight_;
  StepTimes times_;
  bool counts_ = false;
};

}  // namespace tessera
