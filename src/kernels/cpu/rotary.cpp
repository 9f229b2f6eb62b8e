#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/cpu/storage.hpp"
#include "kernels/tiling.hpp"

namespace tessera {

void CpuKernels::compute(const Rotate& a) {
  TESSERA_ASSERT(a.head_width % 2 == 0, "rotary positions rotate pairs; a head has {} elements", a.head_width);
  const int type = storage_index(a.input.dtype);
  const std::int64_t half = a.head_width / 2;
  const Tiling tiles = Tiling::of_size(a.batch * a.sequence, 16);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int worker) {
    ScratchLayout scratch = scratch_of(worker);
    auto* cosine = scratch.take<float>(half);
    auto* sine = scratch.take<float>(half);
    for (std::int64_t t = tiles[task].begin; t < tiles[task].end; ++t) {
      const std::int64_t position = a.positions != nullptr ? a.positions[t] : t % a.sequence;
      const float* angles = a.table + position * a.head_width;
      for (std::int64_t i = 0; i < half; ++i) {
        cosine[i] = angles[2 * i];
        sine[i] = a.inverse ? -angles[2 * i + 1] : angles[2 * i + 1];
      }
      for (std::int64_t head = 0; head < a.heads; ++head) {
        vector_.rotary[type](a.input.at(t, head * a.head_width), cosine, sine, a.output.at(t, head * a.head_width),
                             half);
      }
    }
  });
}

}  // namespace tessera
