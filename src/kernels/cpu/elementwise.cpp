// Element-wise operations of the engine: casts, zeros, sums.

#include <cstring>

#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/cpu/storage.hpp"
#include "kernels/tiling.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kElements = 16384;  ///< of a task
constexpr std::int64_t kBlock = 1024;      ///< of a conversion buffer

std::byte* element(void* data, DType dtype, std::int64_t i) {
  return static_cast<std::byte*>(data) + i * size_of(dtype);
}
const std::byte* element(const void* data, DType dtype, std::int64_t i) {
  return static_cast<const std::byte*>(data) + i * size_of(dtype);
}

auto to_float(const VectorKernels& vector, DType dtype) {
  return dtype == DType::e4m3 ? e4m3_numbers : vector.to_float[storage_index(dtype)];
}
auto from_float(const VectorKernels& vector, DType dtype) {
  return dtype == DType::e4m3 ? e4m3_codes : vector.from_float[storage_index(dtype)];
}

}  // namespace

void CpuKernels::cast(Stream&, const void* src, DType src_dtype, void* dst, DType dst_dtype, std::int64_t n) {
  const Tiling tiles = Tiling::of_size(n, kElements);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
    const Tile tile = tiles[task];
    if (src_dtype == dst_dtype) {
      std::memcpy(element(dst, dst_dtype, tile.begin), element(src, src_dtype, tile.begin),
                  static_cast<std::size_t>(tile.size() * size_of(src_dtype)));
    } else if (dst_dtype == DType::fp32) {
      to_float(vector_, src_dtype)(element(src, src_dtype, tile.begin), static_cast<float*>(dst) + tile.begin,
                                   tile.size());
    } else {
      alignas(64) float buffer[kBlock];
      for (std::int64_t i = tile.begin; i < tile.end; i += kBlock) {
        const std::int64_t length = std::min(kBlock, tile.end - i);
        to_float(vector_, src_dtype)(element(src, src_dtype, i), buffer, length);
        from_float(vector_, dst_dtype)(buffer, element(dst, dst_dtype, i), length);
      }
    }
  });
}

void CpuKernels::fill_zero(Stream&, void* data, std::int64_t bytes) {
  const Tiling tiles = Tiling::of_size(bytes, std::int64_t{1} << 20);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
    const Tile tile = tiles[task];
    std::memset(static_cast<std::byte*>(data) + tile.begin, 0, static_cast<std::size_t>(tile.size()));
  });
}

void CpuKernels::add(Stream&, const void* a, DType a_dtype, const void* b, DType b_dtype, void* out, DType out_dtype,
                     std::int64_t n) {
  const bool all_fp32 = a_dtype == DType::fp32 && b_dtype == DType::fp32 && out_dtype == DType::fp32;
  const Tiling tiles = Tiling::of_size(n, kElements);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
    const Tile tile = tiles[task];
    if (all_fp32) {
      vector_.add(static_cast<const float*>(a) + tile.begin, static_cast<const float*>(b) + tile.begin,
                  static_cast<float*>(out) + tile.begin, tile.size());
      return;
    }
    alignas(64) float x[kBlock], y[kBlock];
    for (std::int64_t i = tile.begin; i < tile.end; i += kBlock) {
      const std::int64_t length = std::min(kBlock, tile.end - i);
      vector_.to_float[storage_index(a_dtype)](element(a, a_dtype, i), x, length);
      vector_.to_float[storage_index(b_dtype)](element(b, b_dtype, i), y, length);
      vector_.add(x, y, x, length);
      vector_.from_float[storage_index(out_dtype)](x, element(out, out_dtype, i), length);
    }
  });
}

void CpuKernels::square_sum(Stream&, const void* x, DType dtype, std::int64_t n, ExactSum* sum) {
  for (ExactSum& worker : worker_sums_) worker.clear();
  const Tiling tiles = Tiling::of_size(n, kElements);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int worker) {
    const Tile tile = tiles[task];
    double chunks[kElements / 64];
    vector_.square_chunks[storage_index(dtype)](element(x, dtype, tile.begin), tile.size(), chunks);
    for (std::int64_t i = 0; i < ceil_div(tile.size(), 64); ++i)
      worker_sums_[static_cast<std::size_t>(worker)].add(chunks[i]);
  });
  for (const ExactSum& worker : worker_sums_)
    sum->add(worker);  // exact: the assignment of chunks to threads does not matter
}

}  // namespace tessera
