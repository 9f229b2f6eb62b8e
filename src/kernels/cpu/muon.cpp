#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/cpu/storage.hpp"
#include "kernels/tiling.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kGrain = 16384;

/// Moves m towards g: the same arithmetic in the direction and in the update.
float moved(float m, float g, float one_minus_momentum) { return m + one_minus_momentum * (g - m); }

}  // namespace

void CpuKernels::muon_direction(Stream&, const DirectionArguments& a) {
  const float clip = a.scalars->clip_coefficient, momentum = static_cast<float>(a.momentum);
  const auto rest = static_cast<float>(1.0 - a.momentum);
  const Tiling tiles = Tiling::of_size(a.elements, kGrain);
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
  const bool skips = a.scalars->skip != 0;
  if (skips && a.copy == nullptr) return;
  const float clip = a.scalars->clip_coefficient, rate = a.scalars->learning_rate;
  const auto rest = static_cast<float>(1.0 - a.momentum);
  const auto decay = static_cast<float>(static_cast<double>(rate) * a.weight_decay);
  const Tiling tiles = Tiling::of_size(a.elements, kGrain);
  with_float_type(a.gradient_dtype, [&]<class T>() {
    const auto* const gradient = static_cast<const T*>(a.gradient);
    pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
      const Tile tile = tiles[task];
      for (const DecayRun& run : a.runs) {
        const std::int64_t begin = std::max(run.begin, tile.begin), end = std::min(run.end, tile.end);
        const float kept = run.decays ? decay : 0.0f, step = rate * run.scale;
        const auto update = [&](std::int64_t from, std::int64_t to) {
          for (std::int64_t i = from; i < to; ++i) {
            a.states[0][i] = moved(a.states[0][i], static_cast<float>(gradient[i]) * clip, rest);
            a.master[i] = (a.master[i] - kept * a.master[i]) - step * a.direction[i];
          }
        };
        if (!skips && !run.is_padding) with_sums(a, begin, end, update);
        if (a.copy == nullptr || begin >= end) continue;
        vector_.from_float[storage_index(a.copy_dtype)](
            a.master + begin, static_cast<std::byte*>(a.copy) + begin * size_of(a.copy_dtype), end - begin);
      }
    });
  });
}

}  // namespace tessera
