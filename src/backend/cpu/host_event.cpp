#include "backend/cpu/host_event.hpp"

#include <chrono>
#include <limits>

#include "tessera/backend/futex.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

std::int64_t HostEvent::start_generation(const void* stream) {
  TESSERA_ASSERT(stream == stream_ || reached_.load() == recorded_.load(),
                 "an event was recorded on a second stream before its last record was reached");
  stream_ = stream;
  return recorded_.fetch_add(1) + 1;
}

void HostEvent::reach(std::int64_t generation, const std::exception_ptr& failure) {
  // All under the lock, which waiting threads take last: once they go on and perhaps destroy the event, this is done.
  const std::lock_guard lock(failure_lock_);
  failure_ = failure;
  failed_generation_ = failure ? generation : 0;
  reached_at_.store(std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  reached_.store(generation);
  changes_.fetch_add(1);
  if (sleepers_.load() > 0) futex_wake(changes_, std::numeric_limits<int>::max(), FutexScope::process);
}

void HostEvent::wait_for(std::int64_t generation) {
  for (Backoff backoff(false); reached_.load() < generation;) {
    if (!backoff.pause()) continue;
    sleepers_.fetch_add(1);
    const std::uint32_t seen = changes_.load();
    if (reached_.load() < generation) futex_wait(changes_, seen, 0, FutexScope::process);
    sleepers_.fetch_sub(1);
  }
  const std::lock_guard lock(failure_lock_);
  // A later failure of the same stream also fails this wait: its work is skipped from there on.
  if (generation > 0 && failed_generation_ >= generation) std::rethrow_exception(failure_);
}

HostEvent& host_event(Event& event) {
  auto* const mine = dynamic_cast<HostEvent*>(&event);
  TESSERA_ASSERT(mine != nullptr, "a host stream was given an event of another device");
  return *mine;
}

std::unique_ptr<Event> make_host_event() { return std::make_unique<HostEvent>(); }

}  // namespace tessera
