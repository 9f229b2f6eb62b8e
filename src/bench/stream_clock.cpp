#include "bench/stream_clock.hpp"

#include <algorithm>
#include <cmath>

namespace tessera {

std::int64_t StreamClock::copies_for(double seconds) {
  constexpr double kEnough = 1e-3;
  constexpr std::int64_t kMost = 8;
  return seconds * kMost < kEnough ? kMost : std::max<std::int64_t>(1, std::llround(kEnough / seconds));
}

void StreamClock::begin() {
  if (used_ == stretches_.size()) {
    Stretch& stretch = stretches_.emplace_back();
    stretch.begin = device_.make_event(EventUse::timing), stretch.end = device_.make_event(EventUse::timing);
  }
  stream_.record(*stretches_[used_].begin);
}

std::vector<double> StreamClock::take() {
  stream_.synchronize();
  std::vector<double> seconds;
  for (std::size_t i = 0; i < used_; ++i) {
    Stretch& stretch = stretches_[i];
    const auto ns = static_cast<double>(device_.nanoseconds_between(*stretch.begin, *stretch.end));
    stretch.seconds = ns * 1e-9 / static_cast<double>(stretch.copies);
    ++stretch.rounds;
    seconds.push_back(stretch.seconds);
  }
  used_ = 0;
  return seconds;
}

}  // namespace tessera
