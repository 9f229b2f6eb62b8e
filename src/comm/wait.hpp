#pragma once
// Waiting for peers: looks at the failure notice and at the deadline between two looks at the condition.

#include <chrono>
#include <cstdint>

#include "tessera/backend/futex.hpp"
#include "tessera/comm/notice.hpp"

namespace tessera {

/// When a collective gives up on its peers; never with 0 seconds.
class PeerDeadline {
 public:
  explicit PeerDeadline(double seconds)
      : limited_(seconds > 0),
        end_(std::chrono::steady_clock::now() +
             std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds))) {}
  bool passed() const { return limited_ && std::chrono::steady_clock::now() >= end_; }

 private:
  bool limited_;
  std::chrono::steady_clock::time_point end_;
};

/// Between two polls of something that nobody wakes us for (a message): gives the core away, later sleeps for moments,
/// so that a long wait costs the computing threads nothing. Throws PeerError when a rank has failed.
class PollPause {
 public:
  explicit PollPause(FailureNotice& notice) : notice_(notice) {}
  void pause();
  /// There was progress: be eager again.
  void restart() { start_ = std::chrono::steady_clock::now(); }

 private:
  FailureNotice& notice_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Waits until `word` has reached `target` (in wrapping order). `sleepers` counts who must be woken by the word's
/// owner. Returns false when the deadline passed; throws PeerError when a rank has failed.
bool wait_until_reached(const std::atomic<std::uint32_t>& word, std::uint32_t target,
                        std::atomic<std::uint32_t>& sleepers, bool spin, const PeerDeadline& deadline,
                        FailureNotice& notice);

/// Sets the word and wakes its sleepers.
void publish(std::atomic<std::uint32_t>& word, std::uint32_t value, const std::atomic<std::uint32_t>& sleepers);

}  // namespace tessera
