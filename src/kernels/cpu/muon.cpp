#include <bit>

#include "kernels/cpu/cpu_kernels.hpp"
#include "tessera/kernels/state_rounding.hpp"

namespace tessera {

namespace {

/// Moves m towards g: the same arithmetic in the direction and in the update.
float moved(float m, float g, float one_minus_momentum) { return m + one_minus_momentum * (g - m); }

/// Returns x as a state in S, rounded by words[i].
template <class S>
S as_state(float x, const std::uint32_t* words, std::int64_t i) {
  if constexpr (std::is_same_v<S, float>) {
    return x;
  } else {
    return S(std::bit_cast<float>(rounded_at_random(std::bit_cast<std::uint32_t>(x), words[i])));
  }
}

}  // namespace

void CpuKernels::compute(const MuonDirection& a) {
  const float clip = a.scalars->clip_coefficient, momentum = static_cast<float>(a.momentum);
  const auto rest = static_cast<float>(1.0 - a.momentum);
  const Tiling tiles = Tiling::of_size(a.elements, kUpdateGrain);
  with_float_type(a.gradient_dtype, [&]<class T>() {
    with_state_type(a.state_dtype, [&]<class S>() {
      const auto* const gradient = static_cast<const T*>(a.gradient);
      const auto* const state = static_cast<const S*>(a.state);
      pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
        for (std::int64_t i = tiles[task].begin; i < tiles[task].end; ++i) {
          const float g = static_cast<float>(gradient[i]) * clip;
          a.output[i] = g + momentum * (moved(static_cast<float>(state[i]), g, rest) - g);
        }
      });
    });
  });
}

void CpuKernels::muon(const ParameterUpdate& a) {
  const float clip = a.scalars->clip_coefficient, rate = a.scalars->learning_rate;
  const auto rest = static_cast<float>(1.0 - a.momentum);
  const auto decay = static_cast<float>(static_cast<double>(rate) * a.weight_decay);
  with_float_type(a.gradient_dtype, [&]<class T>() {
    with_state_type(a.states_dtype, [&]<class S>() {
      const auto* const gradient = static_cast<const T*>(a.gradient);
      auto* const state = static_cast<S*>(a.states[0]);
      update_runs(a, [&](const DecayRun& run, std::int64_t begin, std::int64_t end, const std::uint32_t* words) {
        const float kept = run.decays ? decay : 0.0f, step = rate * run.scale;
        for (std::int64_t i = begin; i < end; ++i) {
          const float m = moved(static_cast<float>(state[i]), static_cast<float>(gradient[i]) * clip, rest);
          state[i] = as_state<S>(m, words, i - begin);
          a.master[i] = (a.master[i] - kept * a.master[i]) - step * a.direction[i];
        }
      });
    });
  });
}

}  // namespace tessera
