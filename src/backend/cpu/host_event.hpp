#pragma once
// Events of host streams: the last recorded generation and the last reached one.

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>

#include "tessera/backend/stream.hpp"

namespace tessera {

class HostEvent final : public Event {
 public:
  void synchronize() override { wait_for(recorded_generation()); }
  bool is_reached() override { return reached_.load() >= recorded_generation(); }

  /// Starts a generation, recorded by `stream`. An event may change streams only when its last record was reached,
  /// because generations are reached in order.
  std::int64_t start_generation(const void* stream);
  std::int64_t recorded_generation() const { return recorded_.load(); }
  /// Returns when the last generation was reached, in nanoseconds of the monotonic clock.
  std::int64_t reached_at() const { return reached_at_.load(); }

  /// Marks this generation as reached by the recording stream; `failure` is the exception of its work, or null.
  void reach(std::int64_t generation, const std::exception_ptr& failure);

  /// Blocks until the generation is reached; rethrows its failure. Generation 0 (never recorded) is always reached.
  void wait_for(std::int64_t generation);

 private:
  std::atomic<std::int64_t> recorded_{0};
  std::atomic<std::int64_t> reached_{0};
  std::atomic<std::int64_t> reached_at_{0};
  std::atomic<std::uint32_t> changes_{0};  ///< the word on which waiting threads sleep
  std::atomic<int> sleepers_{0};
  const void* stream_ = nullptr;

  std::mutex failure_lock_;
  std::exception_ptr failure_;
  std::int64_t failed_generation_ = 0;
};

/// Casts to a host stream's event; InternalError for an event of another device.
HostEvent& host_event(Event& event);

}  // namespace tessera
