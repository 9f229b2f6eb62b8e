#include "comm/mpi/watchdog.hpp"

#include <chrono>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/log.hpp"
#include "tessera/base/threads.hpp"
#include "tessera/base/waited_time.hpp"

namespace tessera {

Watchdog::Watchdog(std::string message, double seconds) : message_(std::move(message)) {
  if (seconds <= 0) return;
  try {
    thread_ = start_thread("watchdog", [this, seconds] { watch(seconds); });
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
  WaitedTime waited(seconds);
  const std::chrono::duration<double> pause(waited.pause());
  for (std::unique_lock lock(mutex_); waited.look() < seconds;) {
    if (changed_.wait_for(lock, pause, [this] { return is_over_; })) return;
  }
  Log(0, 1).error(message_);
  // Not std::exit: its handlers may wait for the call that hangs.
  std::_Exit(static_cast<int>(ExitCode::communication));
}

}  // namespace tessera
