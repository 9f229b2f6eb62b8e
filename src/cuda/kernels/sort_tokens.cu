// A merge sort: pieces of 256 by counting, then eight neighbouring runs at a time. Keys differ from one another, so a
// key's position is the number of smaller ones: found in each run by bisection, all runs at once.

#include "cuda/kernels/grid.hpp"
#include "cuda/kernels/sort_tokens.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kPiece = 256, kRuns = 8;

__global__ void __launch_bounds__(kPiece)
    sort_pieces_kernel(const std::int32_t* tokens, std::int64_t count, std::uint64_t* keys) {
  __shared__ __align__(16) std::uint64_t piece[kPiece];
  const std::int64_t begin = std::int64_t{blockIdx.x} * kPiece, place = begin + threadIdx.x;
  const int size = static_cast<int>(count - begin < kPiece ? count - begin : kPiece);
  if (place < count) {
    piece[threadIdx.x] =
        static_cast<std::uint64_t>(static_cast<std::uint32_t>(tokens[place])) << 32 | static_cast<std::uint64_t>(place);
  }
  __syncthreads();
  if (place >= count) return;
  const std::uint64_t mine = piece[threadIdx.x];
  int before = 0;
#pragma unroll 8
  for (int i = 0; i < size; ++i) before += piece[i] < mine ? 1 : 0;
  keys[begin + before] = mine;
}

/// Merges runs of `run` sorted keys, a power of two; the last may be shorter, or missing.
__global__ void __launch_bounds__(kPiece)
    merge_runs_kernel(const std::uint64_t* keys, std::int64_t count, std::int64_t run, std::uint64_t* merged) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kPiece + threadIdx.x;
  if (index >= count) return;
  const std::int64_t begin = index / (run * kRuns) * (run * kRuns);
  const std::uint64_t mine = keys[index];
  std::int64_t smaller[kRuns] = {};
  for (std::int64_t step = run; step > 0; step /= 2) {
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      const std::int64_t from = begin + i * run, next = smaller[i] + step;
      if (next <= run && from + next <= count && keys[from + next - 1] < mine) smaller[i] = next;
    }
  }
  std::int64_t to = begin;
#pragma unroll
  for (int i = 0; i < kRuns; ++i) to += smaller[i];
  merged[to] = mine;
}

}  // namespace

const std::uint64_t* sort_tokens(cudaStream_t stream, const std::int32_t* tokens, std::int64_t count,
                                 std::uint64_t* keys, std::uint64_t* merged) {
  TESSERA_ASSERT(count <= std::int64_t{1} << 32, "a micro-batch of {} tokens", count);
  launch(stream, blocks_for(count, kPiece), dim3(kPiece), 0, sort_pieces_kernel, tokens, count, keys);
  for (std::int64_t run = kPiece; run < count; run *= kRuns) {
    launch(stream, blocks_for(count, kPiece), dim3(kPiece), 0, merge_runs_kernel, keys, count, run, merged);
    std::swap(keys, merged);
  }
  return keys;
}

}  // namespace tessera
