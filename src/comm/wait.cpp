#include "comm/wait.hpp"

#include <sched.h>

#include <limits>
#include <thread>

namespace tessera {

namespace {

/// A sleep is cut into pieces, because a failure or a deadline does not wake the sleeper.
constexpr std::int64_t kSleepNs = 5'000'000;
constexpr auto kPollEagerly = std::chrono::milliseconds(2);
constexpr auto kPollNap = std::chrono::microseconds(50);

bool reached(std::uint32_t value, std::uint32_t target) { return static_cast<std::int32_t>(value - target) >= 0; }

}  // namespace

void PollPause::pause() {
  notice_.check();
  if (std::chrono::steady_clock::now() - start_ < kPollEagerly) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(kPollNap);
  }
}

bool wait_until_reached(const std::atomic<std::uint32_t>& word, std::uint32_t target,
                        std::atomic<std::uint32_t>& sleepers, bool spin, PeerDeadline& deadline,
                        FailureNotice& notice) {
  for (Backoff backoff(spin); !reached(word.load(std::memory_order_acquire), target);) {
    if (!backoff.pause()) continue;
    notice.check();
    if (deadline.passed()) return false;
    sleepers.fetch_add(1);
    const std::uint32_t seen = word.load();
    if (!reached(seen, target)) futex_wait(word, seen, kSleepNs, FutexScope::machine);
    sleepers.fetch_sub(1);
  }
  return true;
}

void publish(std::atomic<std::uint32_t>& word, std::uint32_t value, const std::atomic<std::uint32_t>& sleepers) {
  word.store(value);  // sequentially consistent, like the sleepers' count: one of the two sides sees the other
  if (sleepers.load() > 0) futex_wake(word, std::numeric_limits<int>::max(), FutexScope::machine);
}

}  // namespace tessera
