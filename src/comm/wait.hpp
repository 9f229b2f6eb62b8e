#pragma once
// Waiting for peers: checks the failure notice and the deadline between two checks of the condition.

#include <chrono>
#include <cstdint>

#include "tessera/backend/futex.hpp"
#include "tessera/base/waited_time.hpp"
#include "tessera/comm/notice.hpp"

namespace tessera {

/// When a rank gives up on its peers; never with 0 seconds. While this process is stopped, the deadline moves on
/// (WaitedTime), so ask more often than every 50 ms.
class PeerDeadline {
 public:
  explicit PeerDeadline(double seconds) : seconds_(seconds), waited_(seconds) {}
  bool passed() { return seconds_ > 0 && waited_.look() >= seconds_; }

 private:
  double seconds_;
  WaitedTime waited_;
};

/// Pauses between two polls of something without a wake-up (a message). Yields the core, later sleeps briefly, so that
/// a long wait costs the computing threads nothing. Throws PeerError when a rank has failed.
class PollPause {
 public:
  explicit PollPause(FailureNotice& notice) : notice_(notice) {}
  void pause();
  /// Notes progress: polls eagerly again.
  void restart() { start_ = std::chrono::steady_clock::now(); }

 private:
  FailureNotice& notice_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Waits until `word` has reached `target` (in wrapping order). `sleepers` counts the threads that the word's owner
/// must wake. Returns false when the deadline passed; throws PeerError when a rank has failed.
bool wait_until_reached(const std::atomic<std::uint32_t>& word, std::uint32_t target,
                        std::atomic<std::uint32_t>& sleepers, bool spin, PeerDeadline& deadline, FailureNotice& notice);

/// Sets the word and wakes its sleepers.
void publish(std::atomic<std::uint32_t>& word, std::uint32_t value, const std::atomic<std::uint32_t>& sleepers);

}  // namespace tessera
