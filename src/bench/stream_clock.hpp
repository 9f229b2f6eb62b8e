#pragma once
// Durations of stretches of one stream's work, by events, without stalling the stream.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/backend/device.hpp"

namespace tessera {

using StreamWork = std::function<void(Stream&)>;

class StreamClock {
 public:
  /// Both must outlive the clock. Events are made on demand and reused.
  StreamClock(Device& device, Stream& stream) : device_(device), stream_(stream) {}

  /// Begins a stretch, or ends the one that was begun, after all work that the stream has been given so far.
  void begin();
  void end() { stream_.record(*stretches_[used_++].end); }
  /// Times work that is the same in every round; a round lies between two take()s. The first round runs it while
  /// libraries choose algorithms, the second as it is. From the third on, a device that can capture replays several
  /// copies of it as one graph, because a lone launch and two events cost 5 to 8 us on an H100, which the copies share.
  template <class F>
  void time(F&& work) {
    if (Stretch* const known = known_stretch(); known != nullptr && device_.can_capture()) {
      if (known->graph == nullptr) capture(*known, work);
      begin();
      known->graph->launch(stream_);
      return end();
    }
    begin();
    work();
    end();
  }
  /// Waits for the stretches; returns the seconds of each since the last take(), in order, for one copy.
  std::vector<double> take();
  /// Returns how many copies of work that takes `seconds` are needed to make its launch a small part of the time.
  static std::int64_t copies_for(double seconds);

 private:
  struct Stretch {
    std::unique_ptr<Event> begin, end;
    double seconds = 0;  ///< of the last round
    std::int64_t rounds = 0;
    std::int64_t copies = 1;
    std::unique_ptr<DeviceGraph> graph;  ///< of the copies
  };

  /// Returns the stretch that comes next, if its time is known.
  Stretch* known_stretch() {
    return used_ < stretches_.size() && stretches_[used_].rounds >= 2 ? &stretches_[used_] : nullptr;
  }
  template <class F>
  void capture(Stretch& stretch, F&& work) {
    stretch.copies = copies_for(stretch.seconds);
    device_.begin_capture(stream_);
    for (std::int64_t i = 0; i < stretch.copies; ++i) work();
    stretch.graph = device_.end_capture(stream_);
  }

  Device& device_;
  Stream& stream_;
  std::vector<Stretch> stretches_;
  std::size_t used_ = 0;
};

}  // namespace tessera
