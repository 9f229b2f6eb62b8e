#pragma once
// The measurements and the report of `tessera bench step`.

#include <memory>
#include <string>

#include "bench/machine_rates.hpp"
#include "bench/result.hpp"
#include "tessera/training/session.hpp"

namespace tessera {

/// A run's session to be timed: on cores or a GPU, depending on the options.
class StepBench {
 public:
  /// Collective. Throws the errors of ResolvedRun. `context` must outlive the bench.
  StepBench(RankContext& context, const Options& options, const MachineShape& machine);

  /// Describes the coming measurement.
  std::string account() const;
  /// Trains bench.warmup + bench.steps steps. Reports the median of a step, tokens/s, the rate of the model's FLOPs,
  /// and the step's time by category. A GPU that replays graphs times no operations, so the last warm-up step that was
  /// not replayed counts. Collective. `sizes`: of the matmuls for comparison. Throws NumericalError when a measured
  /// step's loss is not finite.
  BenchResult measure(const RateSizes& sizes);
  BenchResult measure() { return measure(rate_sizes(*session_->resources().device)); }

 private:
  RankContext& context_;
  ResolvedRun run_;
  std::unique_ptr<TrainingSession> session_;
};

}  // namespace tessera
