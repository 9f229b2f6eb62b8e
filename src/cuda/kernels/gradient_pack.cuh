#pragma once
// Writes finished fp32 gradients: stored or added, rounded once.

#include "cuda/kernels/packs.cuh"

namespace tessera {

/// `x`: eight numbers, or a pack of them.
template <class G, class X>
__device__ __forceinline__ void write_gradient(G* p, std::int64_t left, bool aligned, bool adds, const X& x) {
  StoredPack<G> before{};
  if (adds) before = load_pack(p, left, aligned);
  float sum[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) sum[i] = adds ? before[i] + x[i] : x[i];
  store_pack(p, left, aligned, sum);
}

}  // namespace tessera
