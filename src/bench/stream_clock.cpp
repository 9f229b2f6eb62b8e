#include "bench/stream_clock.hpp"

namespace tessera {

void StreamClock::begin() {
  if (used_ == stretches_.size())
    stretches_.push_back({device_.make_event(EventUse::timing), device_.make_event(EventUse::timing)});
  stream_.record(*stretches_[used_].begin);
}

std::vector<double> StreamClock::take() {
  stream_.synchronize();
  std::vector<double> seconds;
  for (std::size_t i = 0; i < used_; ++i) {
    const std::int64_t ns = device_.nanoseconds_between(*stretches_[i].begin, *stretches_[i].end);
    seconds.push_back(static_cast<double>(ns) * 1e-9);
  }
  used_ = 0;
  return seconds;
}

}  // namespace tessera
