#pragma once
// The few numbers that change from step to step, at one fixed address in the device's memory, so that a captured
// segment can be replayed without touching its arguments. The host writes the inputs before a step and reads results
// after it. The clip kernel moves everything else, so that nothing within a step waits for the host.

#include <cstdint>

namespace tessera {

/// The host's decisions. Copied to the device as one piece before a step.
struct StepInputs {
  std::int64_t step = 0;  ///< 1, 2, ... (dropout's counter)
  std::uint64_t seed = 0;
  float learning_rate = 0;
  std::int32_t counts_loss =
      1;                     ///< 0: the coming losses do not count (an evaluation's last round may have ranks to spare)
  float gradient_scale = 0;  ///< loss_scale / counted_tokens: the start value of d loss
  std::int64_t counted_tokens = 0;  ///< targets of the global batch that the loss counts, over all ranks
};

/// A step's results, written by its clip.
struct StepOutcome {
  double loss = 0;                 ///< mean over the counted tokens of the global batch; 0 where there are none
  double grad_norm = 0;            ///< of the full gradient, before clipping
  double loss_scale = 1;           ///< the scale of this step's gradients
  std::int64_t stop_requests = 0;  ///< the sum of the ranks' requests
  std::int32_t finite = 1;         ///< loss and norm are finite, except for fp16 overflow that a smaller scale can cure
  std::int32_t skipped = 0;        ///< nothing was updated: fp16's gradient overflowed, or run.on_bad_step = skip
};

/// All of it. Kernels read it when they run, not when they are submitted.
struct StepScalars : StepInputs {
  std::int64_t first_sample = 0;  ///< global number of the micro-batch's first sample; comes with its tokens
  double micro_loss = 0;          ///< sum over the tokens of the micro-batch that was computed last

  float bias_correction1 = 1, bias_correction2 = 1;  ///< 1 - beta^t, t = adam_step
  float clip_coefficient = 1;
  std::int32_t skip = 0;        ///< 1: the update does nothing (fp16 overflow, or a failure)
  float loss_scale = 1;         ///< of the current or next gradients; a power of two
  std::int64_t adam_step = 0;   ///< updates done
  std::int64_t good_steps = 0;  ///< since the loss scale last changed
  std::int64_t skipped_steps = 0;
  StepOutcome outcome;  ///< of the last step
};

}  // namespace tessera
