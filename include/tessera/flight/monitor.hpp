#pragma once
// The thread that keeps a rank's heartbeat, and notices operations that take too long.

#include <functional>
#include <stop_token>
#include <thread>

#include "tessera/flight/recorder.hpp"

namespace tessera {

struct FlightWatch {
  double timeout = 0;                                   ///< seconds that a rank may wait for data
  std::function<void(const std::string&)> warn;         ///< gets a line about a late operation
  std::function<void(const std::string&)> end_the_job;  ///< gets why: the data did not come in time
};

class FlightMonitor {
 public:
  /// Starts the thread; `recorder` must outlive the monitor. `watch` is called on it.
  FlightMonitor(FlightRecorder& recorder, FlightWatch watch);
  FlightMonitor(const FlightMonitor&) = delete;
  FlightMonitor& operator=(const FlightMonitor&) = delete;

 private:
  /// The time for which this thread has watched an operation (WaitedTime).
  struct Watched {
    std::uint64_t number = 0;
    double seconds = 0;
    bool warned = false;
  };
  void run(const std::stop_token& over);
  void look(int stream, double passed);
  bool is_told_by_others() const;

  FlightRecorder& recorder_;
  FlightWatch watch_;
  std::array<Watched, kFlightRings> watched_{};
  std::jthread thread_;
};

}  // namespace tessera
