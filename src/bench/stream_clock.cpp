#include "bench/stream_clock.hpp"

#include <chrono>
#include <utility>

namespace tessera {

namespace {

class HostClock final : public StreamClock {
 public:
  void begin() override { start_ = Clock::now(); }
  void end() override { seconds_.push_back(std::chrono::duration<double>(Clock::now() - start_).count()); }
  std::vector<double> take() override { return std::exchange(seconds_, {}); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
  std::vector<double> seconds_;
};

class EventClock final : public StreamClock {
 public:
  EventClock(Device& device, Stream& stream) : device_(device), stream_(stream) {}

  void begin() override {
    if (used_ == stretches_.size())
      stretches_.push_back({device_.make_event(EventUse::timing), device_.make_event(EventUse::timing)});
    stream_.record(*stretches_[used_].begin);
  }
  void end() override { stream_.record(*stretches_[used_++].end); }
  std::vector<double> take() override {
    stream_.synchronize();
    std::vector<double> seconds;
    for (std::size_t i = 0; i < used_; ++i) {
      const std::int64_t ns = device_.nanoseconds_between(*stretches_[i].begin, *stretches_[i].end);
      seconds.push_back(static_cast<double>(ns) * 1e-9);
    }
    used_ = 0;
    return seconds;
  }

 private:
  struct Stretch {
    std::unique_ptr<Event> begin, end;
  };
  Device& device_;
  Stream& stream_;
  std::vector<Stretch> stretches_;
  std::size_t used_ = 0;
};

}  // namespace

std::unique_ptr<StreamClock> make_stream_clock(Device& device, Stream& stream) {
  if (device.kind() == DeviceKind::cpu) return std::make_unique<HostClock>();
  return std::make_unique<EventClock>(device, stream);
}

}  // namespace tessera
