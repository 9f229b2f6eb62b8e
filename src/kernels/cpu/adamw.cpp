#include "kernels/cpu/cpu_kernels.hpp"
#include "tessera/base/counter_rng.hpp"
#include "tessera/kernels/state_rounding.hpp"

namespace tessera {

namespace {

AdamWCoefficients coefficients_of(const ParameterUpdate& a, bool decays) {
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

const std::uint32_t* CpuKernels::rounding_words(const ParameterUpdate& a, const DecayRun& run, std::int64_t begin,
                                                std::int64_t end, int worker) {
  if (!is_rounded(a)) return nullptr;
  const auto count = static_cast<std::size_t>(end - begin);
  auto* const words = scratch_of(worker).take<std::uint32_t>(end - begin + 15);  // a row's last lanes read on
  fill_words(a.scalars->seed, RandomUse::rounding, run.tensor,
             rounding_word(a.scalars->step, run.first + begin - run.begin), {words, count});
  return words;
}

void CpuKernels::adamw(const ParameterUpdate& a) {
  const AdamWCoefficients with_decay = coefficients_of(a, true), without_decay = coefficients_of(a, false);
  const auto update = vector_.adamw[is_rounded(a) ? 1 : 0][storage_index(a.gradient_dtype)];
  update_runs(a, [&](const DecayRun& run, std::int64_t begin, std::int64_t end, const std::uint32_t* words) {
    const auto at = [&](void* data, DType dtype) { return static_cast<std::byte*>(data) + begin * size_of(dtype); };
    update(run.decays ? with_decay : without_decay, at(const_cast<void*>(a.gradient), a.gradient_dtype),
           a.master + begin, at(a.states[0], a.states_dtype), at(a.states[1], a.states_dtype), words, end - begin);
  });
}

}  // namespace tessera
