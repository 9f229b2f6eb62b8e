#pragma once
// The learning rate, step by step.

#include <cstdint>

#include "tessera/config/options.hpp"

namespace tessera {

/// Returns the learning rate of step `step` (1, 2, ...) of `steps`. After a linear warm-up over warmup_steps it is
/// constant, or goes from lr to min_lr along a cosine or a line. With wsd it is constant until the last decay_fraction
/// of the steps, then follows a line. min_lr itself would be the rate of step steps + 1.
double learning_rate(const OptimOptions& options, std::int64_t step, std::int64_t steps);

}  // namespace tessera
