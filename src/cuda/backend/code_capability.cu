#include "cuda/backend/code_capability.hpp"
#include "tessera/cuda/check.hpp"

namespace tessera {

namespace {

__global__ void nothing_kernel() {}

}  // namespace

int code_capability() {
  cudaFuncAttributes attributes{};
  TESSERA_CHECK_CUDA(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(nothing_kernel)));
  return attributes.ptxVersion;
}

}  // namespace tessera
