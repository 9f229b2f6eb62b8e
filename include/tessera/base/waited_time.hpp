#pragma once
// How long somebody has waited. Every limit on waiting uses this clock.
//
// A process may be stopped from outside for any time: by scontrol suspend, a paused container, Ctrl-Z, or a snapshot of
// its virtual machine. The steady clock goes on meanwhile, and nobody tells the process. That time must not count
// against peers, which were mostly stopped as well. So whoever waits looks at the clock again and again, and of the
// time between two looks at most a second counts. However long a process was stopped, its waits grow by a second; when
// ranks are stopped or continued one after the other, those that run wait for the others as usual. Looks that are late
// because the machine is loaded count too, so a wait for somebody who never comes always ends.

#include <algorithm>
#include <chrono>

namespace tessera {

class WaitedTime {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts to wait. `limit`: the seconds after which the waiter gives up; 0: never. Of a limit below 4 s at most a
  /// quarter counts between two looks, or 0.1 s if that is more.
  explicit WaitedTime(double limit = 0, Clock::time_point now = Clock::now())
      : most_(limit > 0 ? std::clamp(limit / 4, 0.1, 1.0) : 1.0), last_(now) {}

  /// Returns the seconds waited so far. Look more often than every pause() seconds.
  double look(Clock::time_point now = Clock::now()) {
    const double passed = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    left_out_ = std::max(0.0, passed - most_);
    return seconds_ += passed - left_out_;
  }
  /// Returns the seconds between the last two looks that do not count: about as long the process itself was stopped.
  double left_out() const { return left_out_; }
  /// Returns how many seconds the waiter may sleep between two looks.
  double pause() const { return most_ / 2; }

 private:
  double most_;
  Clock::time_point last_;
  double seconds_ = 0, left_out_ = 0;
};

}  // namespace tessera
