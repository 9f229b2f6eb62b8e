// Element-wise operations of the engine: casts, zeros, sums.

#include <cstring>

#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/cpu/storage.hpp"
#include "kernels/tiling.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kElements = 16384;  ///< of a task
constexpr std::int64_t kBlock = 1024;      ///< of a conversion buffer

auto to_float(const VectorKernels& vector, DType dtype) {
  return dtype == DType::e4m3 ? e4m3_numbers : vector.to_float[storage_index(dtype)];
}
auto from_float(const VectorKernels& vector, DType dtype) {
  return dtype == DType::e4m3 ? e4m3_codes : vector.from_float[storage_index(dtype)];
}

}  // namespace

void CpuKernels::compute(const Cast& a) {
  const Tiling tiles = Tiling::of_size(a.elements, kElements);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
    const Tile tile = tiles[task];
    if (a.from.dtype == a.to.dtype) {
      std::memcpy(a.to.at(0, tile.begin), a.from.at(0, tile.begin),
                  static_cast<std::size_t>(tile.size() * size_of(a.from.dtype)));
    } else if (a.to.dtype == DType::fp32) {
      to_float(vector_, a.from.dtype)(a.from.at(0, tile.begin), static_cast<float*>(a.to.data) + tile.begin,
                                      tile.size());
    } else {
      alignas(64) float buffer[kBlock];
      for (std::int64_t i = tile.begin; i < tile.end; i += kBlock) {
        const std::int64_t length = std::min(kBlock, tile.end - i);
        to_float(vector_, a.from.dtype)(a.from.at(0, i), buffer, length);
        from_float(vector_, a.to.dtype)(buffer, a.to.at(0, i), length);
      }
    }
  });
}

void CpuKernels::compute(const FillZero& a) {
  const Tiling tiles = Tiling::of_size(a.bytes, std::int64_t{1} << 20);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
    const Tile tile = tiles[task];
    std::memset(static_cast<std::byte*>(a.data) + tile.begin, 0, static_cast<std::size_t>(tile.size()));
  });
}

void CpuKernels::compute(const Add& sum) {
  const bool all_fp32 = sum.a.dtype == DType::fp32 && sum.b.dtype == DType::fp32 && sum.out.dtype == DType::fp32;
  const Tiling tiles = Tiling::of_size(sum.elements, kElements);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
    const Tile tile = tiles[task];
    if (all_fp32) {
      vector_.add(static_cast<const float*>(sum.a.data) + tile.begin,
                  static_cast<const float*>(sum.b.data) + tile.begin, static_cast<float*>(sum.out.data) + tile.begin,
                  tile.size());
      return;
    }
    alignas(64) float x[kBlock], y[kBlock];
    for (std::int64_t i = tile.begin; i < tile.end; i += kBlock) {
      const std::int64_t length = std::min(kBlock, tile.end - i);
      vector_.to_float[storage_index(sum.a.dtype)](sum.a.at(0, i), x, length);
      vector_.to_float[storage_index(sum.b.dtype)](sum.b.at(0, i), y, length);
      vector_.add(x, y, x, length);
      vector_.from_float[storage_index(sum.out.dtype)](x, sum.out.at(0, i), length);
    }
  });
}

void CpuKernels::compute(const SquareSum& a) {
  for (ExactSum& worker : worker_sums_) worker.clear();
  const Tiling tiles = Tiling::of_size(a.elements, kElements);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int worker) {
    const Tile tile = tiles[task];
    double chunks[kElements / 64];
    vector_.square_chunks[storage_index(a.x.dtype)](a.x.at(0, tile.begin), tile.size(), chunks);
    for (std::int64_t i = 0; i < ceil_div(tile.size(), 64); ++i)
      worker_sums_[static_cast<std::size_t>(worker)].add(chunks[i]);
  });
  for (const ExactSum& worker : worker_sums_)
    a.sum->add(worker);  // exact: the assignment of chunks to threads does not matter
}

}  // namespace tessera
