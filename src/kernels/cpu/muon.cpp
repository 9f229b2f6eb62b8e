#include "kernels/cpu/cpu_kernels.hpp"

namespace tessera {

namespace {

/// Moves m towards g: the same arithmetic in the direction and in the update.
float moved(float m, float g, float one_minus_momentum) { return m + one_minus_momentum * (g - m); }

}  // namespace

void CpuKernels::muon_direction(Stream&, const DirectionArguments& a) {
  const float clip = a.scalars->clip_coefficient, momentum = static_cast<float>(a.momentum);
  const auto rest = static_cast<float>(1.0 - a.momentum);
  const Tiling tiles = Tiling::of_size(a.elements, kUpdateGrain);
  with_float_type(a.gradient_dtype, [&]<class T>() {
    const auto* const gradient = static_cast<const T*>(a.gradient);
    pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
      for (std::int64_t i = tiles[task].begin; i < tiles[task].end; ++i) {
        const float g = static_cast<float>(gradient[i]) * clip;
        a.output[i] = g + momentum * (moved(a.state[i], g, rest) - g);
      }
    });
  });
}

void CpuKernels::muon(Stream&, const UpdateArguments& a) {
  const float clip = a.scalars->clip_coefficient, rate = a.scalars->learning_rate;
  const auto rest = static_cast<float>(1.0 - a.momentum);
  const auto decay = static_cast<float>(static_cast<double>(rate) * a.weight_decay);
  with_float_type(a.gradient_dtype, [&]<class T>() {
    const auto* const gradient = static_cast<const T*>(a.gradient);
    update_runs(a, [&](const DecayRun& run, std::int64_t begin, std::int64_t end) {
      const float kept = run.decays ? decay : 0.0f, step = rate * run.scale;
      for (std::int64_t i = begin; i < end; ++i) {
        a.states[0][i] = moved(a.states[0][i], static_cast<float>(gradient[i]) * clip, rest);
        a.master[i] = (a.master[i] - kept * a.master[i]) - step * a.direction[i];
      }
    });
  });
}

}  // namespace tessera
