#pragma once
// How kernels are started: the one place.

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "tessera/backend/stream.hpp"
#include "tessera/cuda/check.hpp"

namespace tessera {

/// The CUDA stream behind a stream of ours.
inline cudaStream_t cuda_stream(Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

#if defined(__CUDACC__)

/// Enqueues kernel<<<grid, block, dynamic_shared_bytes, stream>>>(arguments...); nothing when a grid extent is 0.
/// Dynamic shared memory is asked for here. (Without asking, 48 KB are allowed together with a kernel's own arrays.)
template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  constexpr std::size_t kAllowedUnasked = 16 * 1024;
  if (dynamic_shared_bytes > kAllowedUnasked) {
    TESSERA_CHECK_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                            cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(dynamic_shared_bytes)));
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = dynamic_shared_bytes;
  config.stream = stream;
  TESSERA_CHECK_CUDA(
      cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(std::forward<Arguments>(arguments))...));
}

/// The launch's dynamic shared memory, 16-byte aligned.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char tessera_dynamic_shared_memory[];
  return reinterpret_cast<T*>(tessera_dynamic_shared_memory);
}

#endif

}  // namespace tessera
