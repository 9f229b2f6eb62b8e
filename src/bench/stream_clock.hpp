#pragma once
// Durations of stretches of one stream's work, by events, without stalling the stream.

#include <memory>
#include <vector>

#include "tessera/backend/device.hpp"

namespace tessera {

class StreamClock {
 public:
  /// Both must outlive the clock. Events are made on demand and reused.
  StreamClock(Device& device, Stream& stream) : device_(device), stream_(stream) {}

  /// Begins a stretch, or ends the one that was begun, behind the work that the stream was given so far.
  void begin();
  void end() { stream_.record(*stretches_[used_++].end); }
  /// Waits for the stretches; returns the seconds of each since the last take(), in order.
  std::vector<double> take();

 private:
  struct Stretch {
    std::unique_ptr<Event> begin, end;
  };
  Device& device_;
  Stream& stream_;
  std::vector<Stretch> stretches_;
  std::size_t used_ = 0;
};

}  // namespace tessera
