#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/cpu/storage.hpp"
#include "kernels/tiling.hpp"

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
  const bool skips = a.scalars->skip != 0;
  if (skips && a.copy == nullptr) return;
  const AdamWCoefficients with_decay = coefficients_of(a, true), without_decay = coefficients_of(a, false);
  const auto update = vector_.adamw[storage_index(a.gradient_dtype)];
  const Tiling tiles = Tiling::of_size(a.elements, 16384);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
    const Tile tile = tiles[task];
    for (const DecayRun& run : a.runs) {
      const std::int64_t begin = std::max(run.begin, tile.begin), end = std::min(run.end, tile.end);
      if (begin >= end) continue;
      if (!skips && !run.is_padding) {
        with_sums(a, begin, end, [&](std::int64_t from, std::int64_t to) {
          update(run.decays ? with_decay : without_decay,
                 static_cast<const std::byte*>(a.gradient) + from * size_of(a.gradient_dtype), a.master + from,
                 a.states[0] + from, a.states[1] + from, to - from);
        });
      }
      if (a.copy != nullptr) {  // of what the cache still holds
        vector_.from_float[storage_index(a.copy_dtype)](
            a.master + begin, static_cast<std::byte*>(a.copy) + begin * size_of(a.copy_dtype), end - begin);
      }
    }
  });
}

}  // namespace tessera
