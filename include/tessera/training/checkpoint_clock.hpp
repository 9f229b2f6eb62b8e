#pragma once
// When the next checkpoint is due by the clock: checkpoint.every_minutes, and checkpoint.every = auto.

#include <chrono>
#include <cstdint>
#include <string>

#include "tessera/config/options.hpp"

namespace tessera {

/// Returns the seconds between two checkpoints with which least time is lost, to checkpoints and to what is computed
/// again after a failure, if a checkpoint stops the run for `cost` seconds, and a failure comes every `mtbf` seconds on
/// average: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
/// Generation Computer Systems 22 (2006), equation 37.
double best_checkpoint_interval(double cost, double mtbf);

class CheckpointClock {
 public:
  /// `estimate`: seconds of a checkpoint, until one is measured. Starts the clock.
  CheckpointClock(const CheckpointOptions& options, std::int64_t nodes, double estimate);

  /// Returns the seconds between two checkpoints; infinity if none is due by the clock.
  double interval() const;
  bool is_due() const;
  void restart() { last_ = std::chrono::steady_clock::now(); }
  /// Notes for how many seconds a checkpoint has stopped the run, and how long it took with what was written meanwhile.
  void measured(double cost, double whole) { cost_ = cost, whole_ = whole; }
  /// Returns "every 21 min (checkpoint.every = auto: ...)" if the interval is a fifth longer or shorter than it was in
  /// the last such text; otherwise empty.
  std::string news();

 private:
  double minutes_, mtbf_ = 0;  ///< `mtbf_` in seconds; 0: not checkpoint.every = auto
  double cost_, whole_ = 0, told_ = 0;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace tessera
