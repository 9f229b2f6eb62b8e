#pragma once
// What one step decides from its sums: loss, gradient norm, clip coefficient, loss scale, learning rate. The tensors
// themselves are updated by the schedule's update operations.

#include <cstdint>

#include "tessera/config/options.hpp"
#include "tessera/kernels/step_scalars.hpp"
#include "tessera/schedule/scalar_payload.hpp"

namespace tessera {

/// Learning rate of step `step` (1, 2, ...) of `steps`: linear warm-up over warmup_steps, then constant, or from lr to
/// min_lr along a cosine or a line, or (wsd) constant until the last decay_fraction of the steps and a line from there.
double learning_rate(const OptimOptions& options, std::int64_t step, std::int64_t steps);

/// What a step reports.
struct StepResult {
  double loss = 0;       ///< mean over the tokens of the global batch
  double grad_norm = 0;  ///< of the full gradient, before clipping
  bool skipped = false;  ///< fp16: the gradient overflowed, nothing was updated
  bool finite = true;    ///< loss and norm are finite (fp16 overflow aside)
  std::int64_t stop_requests = 0;
};

/// Settings of the optimizer that do not change during a run.
struct OptimizerSettings {
  OptimOptions options;
  std::int64_t global_tokens = 0;  ///< tokens of the global batch
  bool scales_loss = false;        ///< fp16: dynamic loss scaling
};

/// The scalars of a run, at one address, and how they move from step to step.
class Optimizer {
 public:
  Optimizer(const OptimizerSettings& settings, std::uint64_t seed);

  /// Before step `step` of `steps`: learning rate, and what d loss starts from.
  void begin_step(std::int64_t step, std::int64_t steps);
  /// The schedule's clip operation: reads the summed payload, sets clip coefficient, skip flag, Adam's step and bias
  /// corrections. Dynamic loss scale (Micikevicius et al. 2018): halved on overflow, doubled after 2000 good steps.
  void clip(const ScalarPayload& sums);

  const StepScalars& scalars() const { return scalars_; }
  const StepResult& result() const { return result_; }
  const OptimizerSettings& settings() const { return settings_; }
  std::int64_t skipped_steps() const { return skipped_; }

 private:
  OptimizerSettings settings_;
  StepScalars scalars_;
  StepResult result_;
  double next_loss_scale_ = 1;
  std::int64_t good_steps_ = 0, skipped_ = 0;
};

}  // namespace tessera
