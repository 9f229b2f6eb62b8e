#include "tessera/optimizer/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/config/validate.hpp"

namespace tessera {

namespace {

constexpr double kFirstLossScale = 65536;

}  // namespace

Optimizer::Optimizer(const OptimizerSettings& settings, std::uint64_t seed) : settings_(settings) {
  const double scale = settings.scales_loss ? kFirstLossScale : 1.0;
  scalars_.seed = seed;
  scalars_.loss_scale = static_cast<float>(scale);
  scalars_.counted_tokens = settings.global_tokens;
  set_gradient_scale();
}

void Optimizer::set_gradient_scale() {
  const double tokens = static_cast<double>(scalars_.counted_tokens), scale = scalars_.loss_scale;
  scalars_.gradient_scale = scalars_.counted_tokens > 0 ? static_cast<float>(scale / tokens) : 0.0F;
}

OptimizerRecord Optimizer::record() const {
  const double scale = settings_.scales_loss ? scalars_.loss_scale : 0.0;
  return {scalars_.adam_step, scalars_.good_steps, scalars_.skipped_steps, scale};
}

void Optimizer::restore(const OptimizerRecord& record) {
  scalars_.adam_step = record.adam_step;
  scalars_.skipped_steps = record.skipped_steps;
  // Without a loss scale on record (another precision, imported weights) this run starts with its own first one.
  if (!settings_.scales_loss || record.loss_scale <= 0) return;
  scalars_.good_steps = record.good_steps;
  scalars_.loss_scale = static_cast<float>(record.loss_scale);
  set_gradient_scale();
}

void Optimizer::begin_step(std::int64_t step, const RateProgress& progress, std::int64_t counted_tokens) {
  scalars_.step = step;
  scalars_.counted_tokens = counted_tokens;
  set_gradient_scale();
  scalars_.learning_rate = static_cast<float>(tessera::learning_rate(settings_.options, progress));
}

Clip Optimizer::clip_arguments(const ReducedScalars* reduced, StepScalars* scalars) const {
  Clip a;
  a.reduced = reduced;
  a.scalars = scalars;
  a.clip = settings_.options.clip;
  a.beta1 = settings_.options.beta1;
  a.beta2 = settings_.options.beta2;
  a.scales_loss = settings_.scales_loss;
  a.skips_failures = settings_.skips_failures;
  return a;
}

StepResult Optimizer::result() const {
  const StepOutcome& o = scalars_.outcome;
  StepResult result;
  result.loss = o.loss;
  result.grad_norm = o.grad_norm;
  result.skipped = o.skipped != 0;
  result.finite = o.finite != 0;
  result.stop_requests = o.stop_requests;
  result.learning_rate = scalars_.learning_rate;
  result.loss_scale = o.loss_scale;
  return result;
}

double learning_rate(const OptimOptions& options, const RateProgress& progress) {
  const auto warmup = static_cast<double>(options.warmup_steps);
  if (progress.after <= warmup) return options.lr * progress.after / warmup;
  // The share that is done of the steps from `begin` on: the rate would reach min_lr one step after the last. Only a
  // step of another batch can begin within the warm-up and end after it.
  const auto done = [&](double begin) { return std::max(0.0, progress.before - begin) / (progress.all - begin); };
  const double fall = options.lr - options.min_lr;
  switch (options.schedule) {
    case LearningRateSchedule::constant:
      return options.lr;
    case LearningRateSchedule::cosine:
      return options.min_lr + fall * 0.5 * (1.0 + std::cos(std::numbers::pi * done(warmup)));
    case LearningRateSchedule::linear:
      return options.lr - fall * done(warmup);
    case LearningRateSchedule::wsd: {
      const double decay = progress.all - static_cast<double>(decay_steps(options, std::llround(progress.all)));
      return progress.before < decay ? options.lr : options.lr - fall * done(decay);
    }
  }
  return options.lr;
}

}  // namespace tessera
