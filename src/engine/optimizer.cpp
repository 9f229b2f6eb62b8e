#include "tessera/engine/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera {

namespace {

constexpr double kFirstLossScale = 65536;
constexpr double kLargestLossScale = 16777216;
constexpr std::int64_t kGoodStepsToGrow = 2000;
// torch.nn.utils.clip_grad_norm_ divides by norm + 1e-6; kept, so that clipped runs compare.
constexpr double kClipEpsilon = 1e-6;

}  // namespace

double learning_rate(const OptimOptions& options, std::int64_t step, std::int64_t steps) {
  if (step <= options.warmup_steps)
    return options.lr * static_cast<double>(step) / static_cast<double>(options.warmup_steps);
  const auto after = static_cast<double>(step - options.warmup_steps);
  const double length = std::max(1.0, static_cast<double>(steps - options.warmup_steps));
  const double fall = options.lr - options.min_lr;
  switch (options.schedule) {
    case LearningRateSchedule::constant:
      return options.lr;
    case LearningRateSchedule::cosine: {
      const double done = std::min(1.0, after / length);
      return options.min_lr + fall * 0.5 * (1.0 + std::cos(std::numbers::pi * done));
    }
    case LearningRateSchedule::linear:
      return options.lr - fall * std::min(1.0, after / length);
    case LearningRateSchedule::wsd: {
      const double decay = std::max(1.0, std::floor(options.decay_fraction * static_cast<double>(steps)));
      const double into = static_cast<double>(step) - (static_cast<double>(steps) - decay);
      return into <= 0 ? options.lr : options.lr - fall * std::min(1.0, into / decay);
    }
  }
  return options.lr;
}

Optimizer::Optimizer(const OptimizerSettings& settings, std::uint64_t seed) : settings_(settings) {
  scalars_.seed = seed;
  next_loss_scale_ = settings.scales_loss ? kFirstLossScale : 1.0;
}

void Optimizer::begin_step(std::int64_t step, std::int64_t steps) {
  scalars_.step = step;
  scalars_.learning_rate = static_cast<float>(tessera::learning_rate(settings_.options, step, steps));
  scalars_.loss_scale = static_cast<float>(next_loss_scale_);
  scalars_.gradient_scale = static_cast<float>(next_loss_scale_ / static_cast<double>(settings_.global_tokens));
}

void Optimizer::clip(const ScalarPayload& sums) {
  const double scale = scalars_.loss_scale;
  result_.loss = sums.loss.value() / static_cast<double>(settings_.global_tokens);
  result_.grad_norm = std::sqrt(sums.square_norm.value()) / scale;
  result_.stop_requests = sums.stop_requested;
  const bool overflow = !std::isfinite(result_.grad_norm);
  result_.skipped = overflow && settings_.scales_loss;
  // An overflow that no smaller loss scale can cure is a failure, not a step to skip.
  result_.finite = std::isfinite(result_.loss) && (!overflow || (settings_.scales_loss && scale > 1.0));
  scalars_.skip = overflow || !result_.finite ? 1 : 0;
  if (settings_.scales_loss) {
    good_steps_ = overflow ? 0 : good_steps_ + 1;
    if (overflow) next_loss_scale_ = std::max(1.0, next_loss_scale_ / 2);
    if (good_steps_ == kGoodStepsToGrow)
      next_loss_scale_ = std::min(kLargestLossScale, next_loss_scale_ * 2), good_steps_ = 0;
  }
  if (scalars_.skip != 0) {
    if (result_.skipped) ++skipped_;
    return;
  }
  double coefficient = 1.0;
  if (settings_.options.clip > 0)
    coefficient = std::min(1.0, settings_.options.clip / (result_.grad_norm + kClipEpsilon));
  scalars_.clip_coefficient = static_cast<float>(coefficient / scale);
  scalars_.adam_step += 1;
  const auto t = static_cast<double>(scalars_.adam_step);
  scalars_.bias_correction1 = static_cast<float>(1.0 - std::pow(settings_.options.beta1, t));
  scalars_.bias_correction2 = static_cast<float>(1.0 - std::pow(settings_.options.beta2, t));
}

}  // namespace tessera
