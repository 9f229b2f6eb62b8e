#pragma once
// Ends the process if a call of MPI lasts too long. MPI_Init and MPI_Finalize wait for all ranks without a limit, and
// only the end of the process frees a rank from them.

#include <stop_token>
#include <string>
#include <thread>

namespace tessera {

class Watchdog {
 public:
  /// Unless it is destroyed within `seconds` (0: no limit), prints "tessera: MESSAGE" and ends the process with code 5.
  /// Its thread receives no signals. If the system refuses the thread, the run goes on although nothing watches.
  Watchdog(std::string message, double seconds);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch(double seconds, const std::stop_token& over) const;

  std::string message_;
  std::jthread thread_;
};

}  // namespace tessera
