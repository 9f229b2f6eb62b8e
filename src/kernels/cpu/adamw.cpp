#include "kernels/cpu/cpu_kernels.hpp"

namespace tessera {

namespace {

AdamWCoefficients coefficients_of(const UpdateArguments& a, bool decays) {
  const StepScalars& s = *a.scalars;
  AdamWCoefficients k;
  k.clip = s.clip_coefficient;
  k.decay = decays ? static_cast<float>(static_cast<double>(s.learning_rate) * a.weight_decay) : 0.0f;
  k.one_minus_beta1 = static_cast<float>(1.0 - a.beta1);
  k.beta2 = static_cast<float>(a.beta2);
  k.one_minus_beta2 = static_cast<float>(1.0 - a.beta2);
  k.step_size = s.learning_rate / s.bias_correction1;
  k.inverse_bias_correction2 = 1.0f / s.bias_correction2;
  k.epsilon = static_cast<float>(a.epsilon);
  return k;
}

}  // namespace

void CpuKernels::adamw(Stream&, const UpdateArguments& a) {
  const AdamWCoefficients with_decay = coefficients_of(a, true), without_decay = coefficients_of(a, false);
  const auto update = vector_.adamw[storage_index(a.gradient_dtype)];
  update_runs(a, [&](const DecayRun& run, std::int64_t begin, std::int64_t end) {
    update(run.decays ? with_decay : without_decay,
           static_cast<const std::byte*>(a.gradient) + begin * size_of(a.gradient_dtype), a.master + begin,
           a.states[0] + begin, a.states[1] + begin, end - begin);
  });
}

}  // namespace tessera
