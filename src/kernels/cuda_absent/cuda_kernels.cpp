#include "tessera/kernels/cuda_kernels.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

void require_cuda_attention(const AttentionShape&, DType) {}

std::unique_ptr<Kernels> make_cuda_kernels(void*, const CudaKernelSettings&) {
  throw UsageError("no kernels for GPUs (built without CUDA): run.device = cpu, or a build with TESSERA_CUDA=ON");
}

}  // namespace tessera
