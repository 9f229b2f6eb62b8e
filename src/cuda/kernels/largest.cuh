#pragma once
// The largest magnitudes of matrices, found by those who hold their numbers. They are unsigned integers: the bits of
// magnitudes have the order of the magnitudes, and those of infinity and NaN are above all others.

#include "cuda/kernels/packs.cuh"

namespace tessera {

/// Returns the largest magnitude of a pack's first `left` numbers, as it is stored. `Whole`: as in load_pack.
template <bool Whole = false, class T>
__device__ __forceinline__ unsigned most_of(const StoredPack<T>& x, std::int64_t left = kPack) {
  const auto is_there = [&](int i) { return (Whole && sizeof(T) == 2) || i < left; };
  unsigned most = 0, most_high = 0;
#pragma unroll
  for (int i = 0; i < kPack; i += 4 / static_cast<int>(sizeof(T))) {
    const unsigned word = x.part[i / x.kEach].word[i % x.kEach * static_cast<int>(sizeof(T)) / 4];
    if (is_there(i)) most = max(most, word & (sizeof(T) == 4 ? 0x7fffffffu : 0x7fffu));
    if (sizeof(T) == 2 && is_there(i + 1)) most_high = max(most_high, word & 0x7fff0000u);
  }
  return max(most, most_high >> 16);
}

/// Returns a magnitude as fp32 has it.
template <class T>
__device__ __forceinline__ unsigned in_fp32(unsigned magnitude) {
  if constexpr (sizeof(T) == 4) {
    return magnitude;
  } else {
    T number;
    number.bits = static_cast<std::uint16_t>(magnitude);
    return __float_as_uint(to_float(number));
  }
}

/// Returns the largest number of a warp.
__device__ __forceinline__ unsigned warp_most(unsigned most) {
  for (int half = 16; half >= 1; half /= 2) most = max(most, __shfl_xor_sync(kAllLanes, most, half));
  return most;
}

/// Raises numbers in memory, those that are not null, to the largest magnitudes of T in a block, whose threads all call
/// this.
template <class T, unsigned Threads, int Numbers>
__device__ __forceinline__ void raise_largest(unsigned* const (&largest)[Numbers], const unsigned (&most)[Numbers]) {
  __shared__ __align__(16) unsigned of_warp[Numbers][Threads / 32];
#pragma unroll
  for (int n = 0; n < Numbers; ++n) {
    const unsigned of_this = warp_most(most[n]);
    if (threadIdx.x % 32 == 0) of_warp[n][threadIdx.x / 32] = of_this;
  }
  __syncthreads();
#pragma unroll
  for (int n = 0; n < Numbers; ++n) {
    if (threadIdx.x != n * 32u || largest[n] == nullptr) continue;  // a warp for each
    unsigned of_block = 0;
#pragma unroll
    for (const unsigned of_this : of_warp[n]) of_block = max(of_block, of_this);
    atomicMax(largest[n], in_fp32<T>(of_block));  // the order leaves no trace
  }
}
template <class T, unsigned Threads>
__device__ __forceinline__ void raise_largest(unsigned* largest, unsigned most) {
  raise_largest<T, Threads, 1>({largest}, {most});
}

/// Returns a number of kernels/arguments.hpp as its bits.
inline unsigned* bits_of(float* largest) { return reinterpret_cast<unsigned*>(largest); }

}  // namespace tessera
