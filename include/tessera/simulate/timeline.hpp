#pragma once
// A step of a schedule, played in time instead of on a machine: queues, waits and segment borders as the engine has
// them, with a price in place of each operation's work.

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/config/enums.hpp"
#include "tessera/schedule/schedule.hpp"
#include "tessera/telemetry/step_times.hpp"

namespace tessera {

/// An operation of a play: when it ran, and on which stream (0 computes).
struct TimelineSpan {
  OperationId operation;
  std::int32_t play = 0;  ///< index in StepSchedule::step
  int stream = 0;
  double begin = 0, end = 0;  ///< seconds since the step began
};

struct Timeline {
  double seconds = 0;
  /// Seconds of the compute queue by category; with `host` they add up to the step.
  std::array<double, kTimeCategories> time{};
  double host = 0;                                   ///< issuing, and what lies between segments and steps
  std::array<double, kTimeCategories> operations{};  ///< the operations themselves, on whatever queue
  std::vector<TimelineSpan> spans;                   ///< in the order of the list
};

/// How a machine plays queues, and how much they slow each other down (Cluster has the same).
struct QueueRules {
  bool runs_ahead = false;  ///< a GPU: its host hands work over ahead of time, and each queue has a stream
  QueueMode queues = QueueMode::serial;
  bool replays = false;  ///< a GPU: segments are graphs, and the host issues nothing within them
  double issue = 0, segment = 0, step = 0;
  double compute_under_collectives = 1, compute_under_copies = 1, host_under_copies = 1;
};

/// An operation's time, in seconds.
struct OperationTime {
  OperationTime(double whole, double slept = 0) : seconds(whole), asleep(slept) {}
  double seconds;
  double asleep;  ///< the last part, in which an emulated link waits and slows nothing down
};

/// Plays StepSchedule::step. `times` gives an operation's time alone on the machine.
Timeline play_in_time(const StepSchedule& schedule, const std::function<OperationTime(OperationId)>& times,
                      const QueueRules& rules);

}  // namespace tessera
