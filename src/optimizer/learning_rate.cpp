#include "tessera/optimizer/learning_rate.hpp"

#include <cmath>
#include <numbers>

#include "tessera/config/validate.hpp"

namespace tessera {

double learning_rate(const OptimOptions& options, std::int64_t step, std::int64_t steps) {
  if (step <= options.warmup_steps)
    return options.lr * static_cast<double>(step) / static_cast<double>(options.warmup_steps);
  // The share that is done of `count` steps from `first` on: the rate would reach min_lr one step after the last.
  const auto done = [&](std::int64_t first, std::int64_t count) {
    return static_cast<double>(step - first) / static_cast<double>(count);
  };
  const std::int64_t first = options.warmup_steps + 1;
  const double fall = options.lr - options.min_lr;
  switch (options.schedule) {
    case LearningRateSchedule::constant:
      return options.lr;
    case LearningRateSchedule::cosine:
      return options.min_lr + fall * 0.5 * (1.0 + std::cos(std::numbers::pi * done(first, steps - first + 1)));
    case LearningRateSchedule::linear:
      return options.lr - fall * done(first, steps - first + 1);
    case LearningRateSchedule::wsd: {
      const std::int64_t decay = decay_steps(options, steps);
      return step <= steps - decay ? options.lr : options.lr - fall * done(steps - decay + 1, decay);
    }
  }
  return options.lr;
}

}  // namespace tessera
