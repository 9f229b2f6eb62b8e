#pragma once
// The head: final norm, logits and loss.

#include <cstdint>

#include "tessera/kernels/step_scalars.hpp"
#include "tessera/kernels/views.hpp"

namespace tessera {

/// A target that the loss leaves out.
inline constexpr std::int32_t kUncounted = -1;

/// Everything that the size of the head's scratch depends on.
struct HeadShape {
  std::int64_t tokens = 0, width = 0, vocab = 0;
  /// Rows of the table and of its gradient in memory: the vocabulary's, then zeros that make a GPU's matmuls whole.
  std::int64_t table_rows = 0;
  DType compute = DType::fp32;   ///< of the input
  DType logits = DType::fp32;    ///< the type in which logits are stored: fp32, or the input's
  DType gradient = DType::fp32;  ///< of the table's gradient: 16 bits need an fp32 sum if there are several chunks
  bool training = false;         ///< loss and gradients, otherwise the loss alone
};

/// Final norm, vocabulary matmul and cross-entropy in one, in chunks of tokens: [tokens, vocab] never exists as a
/// whole. The loss alone, or all gradients too where it is for training. Per token: loss = log(sum_v exp(logit_v)) -
/// logit_target, of logits as they are stored.
struct HeadLoss {
  std::int64_t tokens = 0, width = 0, vocab = 0;
  std::int64_t table_rows = 0;  ///< see HeadShape
  DType logits = DType::fp32;   ///< see HeadShape
  float epsilon = 0;
  float gain_offset = 0;  ///< as in NormForward
  bool subtract_mean = true;
  ConstView input;                        ///< [tokens, width]
  ConstView gain, bias;                   ///< [width]; bias may be empty
  ConstView table;                        ///< [table_rows, width]: zeros from `vocab` on
  const std::int32_t* targets = nullptr;  ///< [tokens], each in [0, vocab), or kUncounted: no loss and no gradient
  double* loss = nullptr;                 ///< stored: the sum of the tokens' losses
  float* token_losses = nullptr;          ///< [tokens], stored: each one's; may be null
  double* sample_losses = nullptr;        ///< [samples], stored: the sum of each one's tokens; may be null
  std::int64_t samples = 1;               ///< of tokens / samples tokens each
  void* scratch = nullptr;                ///< KernelNeeds::head
  // Training only; gradients of parameters may be empty:
  View input_gradient;              ///< [tokens, width], stored
  PartialSums input_gradient_sums;  ///< as in NormBackward
  GradientView gain_gradient, bias_gradient;
  GradientView table_gradient;           ///< [table_rows, width]: zeros from `vocab` on stay, or are stored
  const StepScalars* scalars = nullptr;  ///< gradient_scale: the start value of d loss
  float* gradient_largest = nullptr;     ///< of input_gradient

  bool training() const { return input_gradient.data != nullptr; }
  HeadShape shape() const {
    const DType gradient = table_gradient ? table_gradient.view.dtype : DType::fp32;
    return {.tokens = tokens,
            .width = width,
            .vocab = vocab,
            .table_rows = table_rows,
            .compute = input.dtype,
            .logits = logits,
            .gradient = gradient,
            .training = training()};
  }
};

}  // namespace tessera
