#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/cpu/storage.hpp"
#include "kernels/tiling.hpp"

namespace tessera {

void CpuKernels::compute(const GluForward& a) {
  const int type = storage_index(a.gate.dtype), gate = static_cast<int>(a.activation);
  const Tiling tiles = Tiling::of_size(a.tokens, 16);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
    for (std::int64_t t = tiles[task].begin; t < tiles[task].end; ++t) {
      vector_.glu[gate][type](a.gate.at(t), a.up.at(t), a.output.at(t), a.width);
      raise(a.largest, a.output.rows_from(t), a.width);
    }
  });
}

void CpuKernels::compute(const GluBackward& a) {
  TESSERA_ASSERT(!a.gate_gradient8, "a gate's gradient in fp8 on cores");
  const int type = storage_index(a.gate.dtype), gate = static_cast<int>(a.activation);
  const Tiling tiles = Tiling::of_size(a.tokens, 16);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
    for (std::int64_t t = tiles[task].begin; t < tiles[task].end; ++t) {
      if (a.output) vector_.glu[gate][type](a.gate.at(t), a.up.at(t), a.output.at(t), a.width);
      vector_.glu_backward[gate][type](a.gate.at(t), a.up.at(t), a.output_gradient.at(t), a.gate_gradient.at(t),
                                       a.up_gradient.at(t), a.width);
      raise(a.gate_largest, a.gate_gradient.rows_from(t), a.width);
      raise(a.up_largest, a.up_gradient.rows_from(t), a.width);
      if (a.output) raise(a.output_largest, a.output.rows_from(t), a.width);
    }
  });
}

}  // namespace tessera
