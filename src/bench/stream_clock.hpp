#pragma once
// Durations of stretches of one stream's work, on either kind of device, without stalling the stream.

#include <memory>
#include <vector>

#include "tessera/backend/device.hpp"

namespace tessera {

class StreamClock {
 public:
  virtual ~StreamClock() = default;
  /// Begins a stretch, or ends the one that was begun, behind the work that the stream was given so far.
  virtual void begin() = 0;
  virtual void end() = 0;
  /// Waits for the stretches; returns the seconds of each since the last take(), in order.
  virtual std::vector<double> take() = 0;
};

/// Makes a clock for `stream` of `device`. On a GPU it uses events. A CPU's stream is serial, so its work is done when
/// its call returns. Both must outlive the clock. Events are made on demand and reused.
std::unique_ptr<StreamClock> make_stream_clock(Device& device, Stream& stream);

}  // namespace tessera
