#pragma once
// Ends the process if a call of MPI lasts too long. MPI_Init and MPI_Finalize wait for all ranks without a limit, and
// only the end of the process frees a rank from them.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace tessera {

class Watchdog {
 public:
  /// Unless it is destroyed within `seconds` (0: no limit), prints "tessera: MESSAGE" and ends the process with code 5.
  /// Its thread receives no signals. If the system refuses the thread, the run goes on although nothing watches.
  Watchdog(std::string message, double seconds);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch(double seconds);

  std::string message_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace tessera
