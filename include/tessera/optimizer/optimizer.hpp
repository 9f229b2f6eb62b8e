#pragma once
// The decisions that a step takes from its sums: loss, gradient norm, clip coefficient, loss scale, learning rate. The
// tensors themselves are updated by the schedule's update operations.

#include <cstdint>

#include "tessera/config/options.hpp"
#include "tessera/kernels/arguments/account.hpp"
#include "tessera/optimizer/run_length.hpp"

namespace tessera {

/// The report of a step.
struct StepResult {
  double loss = 0;                 ///< mean over the counted tokens of the global batch
  double grad_norm = 0;            ///< of the full gradient, before clipping
  bool skipped = false;            ///< as StepOutcome::skipped
  bool finite = true;              ///< loss and norm are finite (fp16 overflow aside)
  bool given_up = false;           ///< ranks wished to stop, and its rest took too long: nothing was updated
  std::int64_t stop_requests = 0;  ///< the sum of what ranks asked for: training/stop.hpp
  float learning_rate = 0;
  double loss_scale = 1;  ///< that the step's gradients were made with
};

/// The optimizer's state besides that of each element; a checkpoint has it.
struct OptimizerRecord {
  std::int64_t adam_step = 0, good_steps = 0, skipped_steps = 0;
  double loss_scale = 0;  ///< of the next step; 0: the run's first one (imported weights, runs without loss scaling)
  bool operator==(const OptimizerRecord&) const = default;
};

/// Settings of the optimizer that do not change during a run.
struct OptimizerSettings {
  OptimOptions options;
  std::int64_t global_tokens = 0;  ///< tokens of the global batch
  bool scales_loss = false;        ///< fp16: dynamic loss scaling
  bool skips_failures = false;     ///< run.on_bad_step = skip
};

/// The host's side of the step's scalars: its decisions before a step, and the results that it reads after one. In
/// between, the clip kernel moves them (kernels/arguments/account.hpp).
class Optimizer {
 public:
  Optimizer(const OptimizerSettings& settings, std::uint64_t seed);

  /// Sets the learning rate and the normaliser of the loss, before step `step`. A step without any counted token has
  /// loss and gradient 0; moments and weight decay still move weights.
  void begin_step(std::int64_t step, const RateProgress& progress, std::int64_t counted_tokens);
  /// Returns the arguments of the schedule's clip operation on scalars and sums at these addresses.
  Clip clip_arguments(const ReducedScalars* reduced, StepScalars* scalars) const;

  /// Returns what a checkpoint keeps between two steps; restore goes on from it.
  OptimizerRecord record() const;
  void restore(const OptimizerRecord& record);

  /// Returns the inputs of the coming step and the state that the last one left. They are as last read back
  /// (Player::receive_scalars), or to be sent, as a resumed run does (Player::send_scalars).
  const StepScalars& scalars() const { return scalars_; }
  StepScalars& scalars() { return scalars_; }
  /// Returns the result of the last step that was read back.
  StepResult result() const;
  const OptimizerSettings& settings() const { return settings_; }
  std::int64_t skipped_steps() const { return scalars_.skipped_steps; }

 private:
  void set_gradient_scale();

  OptimizerSettings settings_;
  StepScalars scalars_;
};

/// Returns the learning rate of a step. After a linear warm-up over warmup_steps it is constant, or goes from lr to
/// min_lr along a cosine or a line. With wsd it is constant until the last decay_fraction of the steps, then follows a
/// line. min_lr itself would be the rate of the step after the last.
double learning_rate(const OptimOptions& options, const RateProgress& progress);

}  // namespace tessera
