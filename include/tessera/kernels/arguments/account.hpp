#pragma once
// The account of a step: its losses, and the decision that its sums make.

#include <cstdint>

#include "tessera/kernels/reduced_scalars.hpp"
#include "tessera/kernels/step_scalars.hpp"

namespace tessera {

/// The losses of a step's samples, in memory: the bits of how many micro-batches are in place, then the samples of the
/// last one that was computed, then those of every micro-batch.
struct SampleLosses {
  double* data = nullptr;
  std::int64_t samples = 0;  ///< of a micro-batch

  static constexpr std::int64_t bytes(std::int64_t samples, std::int64_t micro_batches) {
    return (1 + (1 + micro_batches) * samples) * std::int64_t{sizeof(double)};
  }
  TESSERA_HOST_DEVICE double* last() const { return data + 1; }
  TESSERA_HOST_DEVICE double* of(std::int64_t micro_batch) const { return data + 1 + (1 + micro_batch) * samples; }
};

/// Adds a micro-batch's loss to the step's sums: scalars->micro_loss to the reduced scalars if scalars->counts_loss.
struct AddLoss {
  const StepScalars* scalars = nullptr;
  ReducedScalars* reduced = nullptr;
  bool starts = false;  ///< the step's first: clears the reduced scalars
  SampleLosses losses;  ///< those of the micro-batch are copied to its place; may be none
};

/// The step's decision, from sums that are complete over all ranks: outcome, skip, clip coefficient, Adam's step and
/// bias corrections, and the next loss scale. With scales_loss, the scale is halved on overflow and doubled after 2000
/// good steps (Micikevicius et al. 2018).
struct Clip {
  const ReducedScalars* reduced = nullptr;
  StepScalars* scalars = nullptr;
  double clip = 0;  ///< largest norm; 0: no clipping
  double beta1 = 0.9, beta2 = 0.999;
  bool scales_loss = false;     ///< fp16: dynamic loss scaling
  bool skips_failures = false;  ///< a step that is not finite counts as skipped
};

}  // namespace tessera
