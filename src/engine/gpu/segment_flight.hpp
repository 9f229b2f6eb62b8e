#pragma once
// A GPU's part of the flight recorder: segments, from their submission until the event behind them is reached. The host
// looks at the events whenever it waits, so that a hang shows the segment in which the GPU is.

#include <array>
#include <memory>

#include "engine/queues.hpp"
#include "tessera/flight/recorder.hpp"
#include "tessera/telemetry/step_times.hpp"

namespace tessera {

class SegmentFlight {
 public:
  /// `flight` may be null.
  SegmentFlight(const StepSchedule& schedule, Device& device, FlightRecorder* flight)
      : first_row_(std::ssize(schedule.operations)), flight_(flight) {
    for (auto& event : events_) event = device.make_event();
  }

  /// Notes a segment whose last work is now on the stream. If too many are under way, it counts as part of the one
  /// before.
  void submitted(SegmentId segment, Stream& stream) {
    look();
    if (flight_ == nullptr || begun_ - done_ == events_.size()) return;
    flight_->begin(kFlightRings - 1, first_row_ + segment.number(), steady_nanoseconds());
    stream.record(*events_[++begun_ % events_.size()]);
  }

  /// Notes which are done.
  void look() {
    while (done_ < begun_ && events_[(done_ + 1) % events_.size()]->is_reached())
      flight_->end(kFlightRings - 1, ++done_, steady_nanoseconds());
  }

 private:
  std::int64_t first_row_;
  FlightRecorder* flight_;
  std::array<std::unique_ptr<Event>, 16> events_;
  std::uint64_t begun_ = 0, done_ = 0;
};

}  // namespace tessera
