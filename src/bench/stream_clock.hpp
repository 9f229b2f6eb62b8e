#pragma once
// How long stretches of one stream's work take, on either kind of device, without holding the stream up.

#include <memory>
#include <vector>

#include "tessera/backend/device.hpp"

namespace tessera {

class StreamClock {
 public:
  virtual ~StreamClock() = default;
  /// A stretch begins, or the one that was begun ends, behind the work that the stream was given so far.
  virtual void begin() = 0;
  virtual void end() = 0;
  /// Waits for the stretches; seconds of each since the last take(), in order.
  virtual std::vector<double> take() = 0;
};

/// For `stream` of `device`: by events where it is a GPU's; on a CPU a serial stream, whose work is done when its call
/// returns. Both must outlive the clock. Events are made at first need and used again.
std::unique_ptr<StreamClock> make_stream_clock(Device& device, Stream& stream);

}  // namespace tessera
