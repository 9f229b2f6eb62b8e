#pragma once
// Writes finished fp32 gradients: stored or added, rounded once.

#include "cuda/kernels/packs.cuh"

namespace tessera {

template <class G>
__device__ __forceinline__ void write_gradient(G* p, std::int64_t left, bool aligned, bool adds,
                                               const float (&x)[kPack]) {
  float sum[kPack];
  if (adds) load_pack(p, left, aligned, sum);
#pragma unroll
  for (int i = 0; i < kPack; ++i) sum[i] = adds ? sum[i] + x[i] : x[i];
  store_pack(p, left, aligned, sum);
}

}  // namespace tessera
