#include <atomic>

#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/tiling.hpp"

namespace tessera {

void CpuKernels::checksum(Stream&, const void* data, std::int64_t words, std::int64_t first, std::uint64_t* sum) {
  const Tiling tiles = Tiling::of_size(words, 1 << 16);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
    const Tile tile = tiles[task];
    const std::uint64_t here = vector_.checksum(static_cast<const std::byte*>(data) + 4 * tile.begin, tile.size(),
                                                checksum_weight(first + tile.begin));
    std::atomic_ref(*sum).fetch_add(here, std::memory_order_relaxed);
  });
}

void CpuKernels::add_to_sums(const UpdateArguments& a, std::int64_t begin, std::int64_t end, std::uint64_t sign) const {
  const auto add = [&](std::uint64_t* sum, const float* state) {
    const std::uint64_t here = vector_.checksum(state + begin, end - begin, checksum_weight(a.first + begin));
    std::atomic_ref(*sum).fetch_add(sign * here, std::memory_order_relaxed);
  };
  add(a.sums, a.master);
  for (std::size_t i = 0; i < a.states.size(); ++i) add(a.sums + 1 + i, a.states[i]);
}

}  // namespace tessera
