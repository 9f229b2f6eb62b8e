#pragma once
// What `tessera bench step`, `comm` and `kernels` measure, and how they report it.

#include <memory>
#include <optional>
#include <string>

#include "bench/machine_rates.hpp"
#include "bench/result.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/config/options.hpp"
#include "tessera/record/prediction.hpp"
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
  /// the comparison with its prediction (plan.cluster), and its time by category. A GPU that replays graphs times no
  /// operations, so the last warm-up step that was not replayed counts. Collective. `sizes`: of the matmuls for
  /// comparison. Throws NumericalError when a measured step's loss is not finite.
  BenchResult measure(const RateSizes& sizes);
  BenchResult measure() { return measure(rate_sizes(context_, *session_->resources().device)); }

 private:
  RankContext& context_;
  ResolvedRun run_;
  std::optional<RunPrediction> prediction_;  ///< with plan.cluster, on rank 0
  std::unique_ptr<TrainingSession> session_;
};

/// Measures Tessera's communicators over the world, made as a training session makes them, and compares them with
/// `reference`: MPI's own collectives over the same ranks in the same order, which may use any buffer. Collective, with
/// at least two ranks; the same result on all of them.
BenchResult comm_table(RankContext& context, const Options& options, const MachineShape& machine,
                       Communicator& reference);

/// Measures every kernel of the options' training step on all ranks at once, and ceilings at these sizes; none: those
/// of the device. Collective; the result is the caller's. Throws UsageError for a model that cannot be trained, an
/// impossible schedule, or too little memory.
BenchResult kernel_table(RankContext& context, const Options& options, const MachineShape& machine,
                         const std::optional<RateSizes>& sizes = {});

}  // namespace tessera
