#pragma once
// What `tessera bench step` measures and says.

#include <memory>
#include <string>

#include "bench/machine_rates.hpp"
#include "bench/result.hpp"
#include "tessera/training/prepare.hpp"

namespace tessera {

/// A run's session, to be timed: on cores or a GPU, whichever the options say.
class StepBench {
 public:
  /// Collective. Errors: PreparedRun's. References must outlive the bench.
  StepBench(RankContext& context, const Options& options, const MachineShape& machine);

  /// What is about to be measured.
  std::string account() const;
  /// Trains bench.warmup + bench.steps steps: the median of a step, tokens/s, the rate of the model's FLOPs, and where
  /// a step's time goes as far as operations are timed (a GPU that replays graphs times none; then it is the last of
  /// the warm-up's that was not replayed). Collective. `sizes`: what matrix products reach is
  /// measured at. NumericalError when a measured step's loss is not finite.
  BenchResult measure(const RateSizes& sizes);
  BenchResult measure() { return measure(rate_sizes(*session_->resources().device)); }

 private:
  RankContext& context_;
  const Options& options_;
  PreparedRun prepared_;
  std::unique_ptr<TrainingSession> session_;
};

}  // namespace tessera
