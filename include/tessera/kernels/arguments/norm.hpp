#pragma once
// Layer norm and RMS norm.

#include <cstdint>

#include "tessera/kernels/views.hpp"

namespace tessera {

/// output = residual + norm(input), rounded once. Layer norm, or RMS norm when subtract_mean is false (then mean and
/// bias are not used).
struct NormForward {
  std::int64_t tokens = 0, width = 0;
  float epsilon = 0;
  float gain_offset = 0;  ///< added to every gain: 1 where a weight w means a gain of 1 + w (Gemma)
  bool subtract_mean = true;
  ConstView input;       ///< [tokens, width]
  ConstView gain, bias;  ///< [width]; bias may be empty
  ConstView residual;    ///< [tokens, width] in output's dtype, or empty; there is no bias then
  /// [tokens, width] in input's dtype; may be the residual's own memory. Empty: statistics only, without a residual.
  View output;
  float* mean = nullptr;                  ///< [tokens], written; null for RMS norm
  float* reciprocal_deviation = nullptr;  ///< [tokens]: 1 / sqrt(variance + epsilon)
  float* largest = nullptr;               ///< of output
};

struct NormBackward {
  std::int64_t tokens = 0, width = 0;
  float gain_offset = 0;  ///< forward's
  bool subtract_mean = true;
  ConstView input;              ///< forward's
  ConstView gain, bias;         ///< [width]; bias is read for `normalized` alone and may be empty
  const float* mean = nullptr;  ///< null for RMS norm
  const float* reciprocal_deviation = nullptr;
  ConstView output_gradient;  ///< [tokens, width] in input's dtype
  View input_gradient;        ///< [tokens, width] in input's dtype; may be output_gradient's own memory
  bool input_adds = false;    ///< input_gradient += (a residual path runs in parallel to the norm)
  View normalized;  ///< [tokens, width]: forward's output without a residual again, the same bits; may be empty
  /// Stored: sums of input_gradient as it is stored, in KernelNeeds::gradient_sum_rows rows. May be empty.
  PartialSums input_gradient_sums;
  GradientView gain_gradient, bias_gradient;                         ///< [width]
  void* scratch = nullptr;                                           ///< KernelNeeds::norm_backward
  float *normalized_largest = nullptr, *gradient_largest = nullptr;  ///< of normalized, of input_gradient
};

}  // namespace tessera
