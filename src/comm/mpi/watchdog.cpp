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
    thread_ = start_thread("watchdog", [this, seconds](const std::stop_token& over) { watch(seconds, over); });
  } catch (const IoError&) {
  }
}

void Watchdog::watch(double seconds, const std::stop_token& over) const {
  WaitedTime waited(seconds);
  const auto pause =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(waited.pause()));
  while (waited.look() < seconds) {
    if (ends_within(over, pause)) return;
  }
  Log(0, 1).error(message_);
  // Not std::exit: its handlers may wait for the call that hangs.
  std::_Exit(static_cast<int>(ExitCode::communication));
}

}  // namespace tessera
