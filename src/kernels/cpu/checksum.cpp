#include <atomic>

#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/tiling.hpp"
#include "tessera/base/math.hpp"

namespace tessera {

void CpuKernels::compute(const AddChecksum& a) {
  const Tiling tiles = Tiling::of_size(a.words, 1 << 16);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
    const Tile tile = tiles[task];
    const std::uint64_t here = vector_.checksum(static_cast<const std::byte*>(a.data) + 4 * tile.begin, tile.size(),
                                                checksum_weight(a.first + tile.begin));
    std::atomic_ref(*a.sum).fetch_add(here, std::memory_order_relaxed);
  });
}

void CpuKernels::add_to_sums(const ParameterUpdate& a, std::int64_t begin, std::int64_t end, std::uint64_t sign) const {
  const auto add = [&](std::uint64_t* sum, const void* state, DType dtype) {
    // Two elements of 16 bits are a word. Pieces begin at whole words; behind an odd end lies padding, which stays.
    const std::int64_t each = 4 / size_of(dtype), first = begin / each, words = ceil_div(end, each) - first;
    TESSERA_ASSERT(begin % each == 0 && a.first % each == 0, "an update of a state begins within a word");
    const std::uint64_t here = vector_.checksum(static_cast<const std::byte*>(state) + 4 * first, words,
                                                checksum_weight(a.first / each + first));
    std::atomic_ref(*sum).fetch_add(sign * here, std::memory_order_relaxed);
  };
  add(a.sums, a.master, DType::fp32);
  for (std::size_t i = 0; i < a.states.size(); ++i) add(a.sums + 1 + i, a.states[i], a.states_dtype);
}

}  // namespace tessera
