#include "comm/mpi/watchdog.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/log.hpp"
#include "tessera/base/threads.hpp"

namespace tessera {

Watchdog::Watchdog(std::string message, double seconds) : message_(std::move(message)) {
  constexpr double kLongest = 1e9;  // seconds that a clock can count
  if (seconds <= 0) return;
  try {
    thread_ = start_thread("watchdog", [this, limit = std::min(seconds, kLongest)] { watch(limit); });
  } catch (const IoError&) {
  }
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::watch(double seconds) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return is_over_; })) return;
  Log(0, 1).error(message_);
  // Not std::exit: its handlers may wait for the call that hangs.
  std::_Exit(static_cast<int>(ExitCode::communication));
}

}  // namespace tessera
