#pragma once
// Updates of a step's scalars, written once for hosts and GPUs.

#include <bit>
#include <cmath>

#include "tessera/base/host_device.hpp"
#include "tessera/kernels/arguments/account.hpp"

namespace tessera {

inline constexpr double kLargestLossScale = 16777216;
inline constexpr std::int64_t kGoodStepsToGrow = 2000;
// torch.nn.utils.clip_grad_norm_ divides by norm + 1e-6, which is kept so that clipped runs can be compared.
inline constexpr double kClipEpsilon = 1e-6;

TESSERA_HOST_DEVICE inline void account_loss_rule(const AddLoss& a) {
  if (a.starts) a.reduced->clear();
  if (a.scalars->counts_loss != 0) a.reduced->loss.add(a.scalars->micro_loss);
  if (a.losses.data == nullptr) return;
  const std::int64_t place = a.starts ? 0 : std::bit_cast<std::int64_t>(a.losses.data[0]);
  for (std::int64_t i = 0; i < a.losses.samples; ++i) a.losses.of(place)[i] = a.losses.last()[i];
  a.losses.data[0] = std::bit_cast<double>(place + 1);
}

/// Returns whether a number is neither infinite nor NaN.
TESSERA_HOST_DEVICE inline bool is_finite(double x) { return x - x == 0; }

TESSERA_HOST_DEVICE inline void clip_rule(const Clip& a) {
  StepScalars& s = *a.scalars;
  StepOutcome& o = s.outcome;
  const double scale = s.loss_scale;
  o.loss_scale = scale;
  o.loss = s.counted_tokens > 0 ? a.reduced->loss.value() / static_cast<double>(s.counted_tokens) : 0.0;
  o.grad_norm = std::sqrt(a.reduced->square_norm.value()) / scale;
  o.stop_requests = a.reduced->stop_requested;
  const bool overflow = !is_finite(o.grad_norm);
  // An overflow that no smaller loss scale can cure is a failure, not a step to skip.
  o.finite = is_finite(o.loss) && (!overflow || (a.scales_loss && scale > 1.0)) ? 1 : 0;
  s.skip = overflow || o.finite == 0 ? 1 : 0;
  o.skipped = (overflow && a.scales_loss) || (o.finite == 0 && a.skips_failures) ? 1 : 0;
  if (a.scales_loss) {
    double next = scale;
    s.good_steps = overflow ? 0 : s.good_steps + 1;
    if (overflow) next = scale / 2 > 1.0 ? scale / 2 : 1.0;
    if (s.good_steps == kGoodStepsToGrow) {
      next = next * 2 < kLargestLossScale ? next * 2 : kLargestLossScale;
      s.good_steps = 0;
    }
    s.loss_scale = static_cast<float>(next);
  }
  if (s.skip != 0) {
    s.skipped_steps += o.skipped;
    return;
  }
  double coefficient = 1.0;
  if (a.clip > 0) {
    const double wanted = a.clip / (o.grad_norm + kClipEpsilon);
    if (wanted < coefficient) coefficient = wanted;
  }
  s.clip_coefficient = static_cast<float>(coefficient / scale);
  s.adam_step += 1;
  const auto t = static_cast<double>(s.adam_step);
  s.bias_correction1 = static_cast<float>(1.0 - std::pow(a.beta1, t));
  s.bias_correction2 = static_cast<float>(1.0 - std::pow(a.beta2, t));
}

}  // namespace tessera
