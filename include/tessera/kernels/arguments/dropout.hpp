#pragma once
// Dropout, whose masks do not depend on the order of work.

#include <cstdint>

#include "tessera/kernels/step_scalars.hpp"
#include "tessera/kernels/views.hpp"

namespace tessera {

/// The site of a dropout in a model: keeps the masks of one layer apart.
enum class DropoutSite : std::uint32_t { embedding = 0, attention = 1, attention_residual = 2, mlp_residual = 3 };

/// Counter-based dropout: element e of sample s is dropped as a function of (seed, step, s, layer, site, e) alone. Kept
/// elements are scaled by 1 / (1 - probability). probability 0 costs nothing.
struct Dropout {
  float probability = 0;
  std::int64_t sequence = 0;  ///< tokens per sample: row r belongs to sample first_sample + (first_row + r) / sequence
  std::int32_t layer = 0;
  DropoutSite site = DropoutSite::embedding;
  const StepScalars* scalars = nullptr;  ///< seed, step and first_sample; read when the kernel runs
  std::int64_t first_row = 0;            ///< of the micro-batch, where a kernel gets some of its rows

  bool on() const { return probability > 0; }
};

/// output = input with the mask of `dropout`, which must be on.
struct ApplyDropout {
  std::int64_t rows = 0, columns = 0;
  ConstView input;  ///< [rows, columns]
  View output;      ///< [rows, columns]; may be the input's own memory
  Dropout dropout;
};

}  // namespace tessera
