#pragma once
// Checksums (kernels/arguments/elements.hpp) in blocks of threads.

#include <cstdint>

#include "cuda/kernels/intrinsics.cuh"
#include "tessera/kernels/arguments/elements.hpp"

namespace tessera {

using Checksum = unsigned long long;

/// Returns what word number `i` adds to a checksum, or takes from it: modulo 2^64 that is the same.
__device__ __forceinline__ Checksum checksum_of(std::uint32_t word, std::int64_t i) {
  return word * Checksum{checksum_weight(i)};
}

/// What one thread's update changes of the checksums of `kSums` arrays; nothing if they are not kept.
template <int kSums, bool kept>
struct ChecksumChanges {
  Checksum of[kept ? kSums : 1] = {};
  /// Notes that element i of an array of S was replaced. Two elements of 16 bits are a word.
  template <class S = float>
  __device__ __forceinline__ void note(int array, std::int64_t i, float before, float after) {
    const auto change = [&](float x) {
      const std::uint32_t bits = __float_as_uint(x);
      if constexpr (sizeof(S) == 4) return checksum_of(bits, i);
      return checksum_of(i % 2 == 0 ? bits >> 16 : bits & 0xffff0000u, i / 2);
    };
    if constexpr (kept) of[array] += change(after) - change(before);
  }
};

/// Adds what the threads of a block found to `kSums` numbers in memory; all of them call it. Sums of integers leave no
/// trace of their order.
template <unsigned kThreads, int kSums>
__device__ __forceinline__ void add_block_sums(Checksum (&found)[kSums], Checksum* sums) {
  __shared__ Checksum of_warps[kSums][kThreads / 32];
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
#pragma unroll
    for (int distance = 16; distance >= 1; distance /= 2) found[s] += __shfl_xor_sync(kAllLanes, found[s], distance);
    if (threadIdx.x % 32 == 0) of_warps[s][threadIdx.x / 32] = found[s];
  }
  __syncthreads();
  if (threadIdx.x >= kSums) return;
  Checksum sum = 0;
  for (unsigned warp = 0; warp < kThreads / 32; ++warp) sum += of_warps[threadIdx.x][warp];
  if (sum != 0) atomicAdd(sums + threadIdx.x, sum);
}

}  // namespace tessera
