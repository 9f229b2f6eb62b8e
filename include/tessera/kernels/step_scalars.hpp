#pragma once
// The few numbers that change from step to step, at one fixed address (a device struct on a GPU), so that a captured
// segment can be played again without touching its arguments.

#include <cstdint>

namespace tessera {

/// What changes from step to step. Kernels read it when they run, not when they are submitted.
struct StepScalars {
  float learning_rate = 0;
  float bias_correction1 = 1, bias_correction2 = 1;  ///< 1 - beta^t, t = adam_step
  float loss_scale = 1;
  float clip_coefficient = 1;
  float gradient_scale = 0;    ///< 1 / tokens of the global batch (times loss_scale): what d loss starts from
  std::int32_t skip = 0;       ///< 1: the update does nothing (fp16 overflow)
  std::int64_t adam_step = 0;  ///< updates done, this one included
  std::int64_t step = 0;       ///< 1, 2, ... (dropout's counter)
  std::uint64_t seed = 0;
};

}  // namespace tessera
