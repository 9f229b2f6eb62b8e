#include "cuda/kernels/cuda_kernels.hpp"

#include "tessera/kernels/cuda_kernels.hpp"
#include "tessera/kernels/needs.hpp"

namespace tessera {

static_assert(CudaKernels::Limits{}.workspace_bytes() == kMatmulWorkspaceBytes + kSumWorkspaceBytes);

CudaKernels::CudaKernels(void* workspace, const Limits& limits, const CudaKernelSettings& settings)
    : matmuls_(workspace, limits.library_bytes, settings.gemm),
      workspace_(reinterpret_cast<float*>(static_cast<std::byte*>(workspace) + limits.library_bytes)),
      limits_(limits),
      fuses_gelu_(!settings.deterministic),
      attention_(settings, workspace_, limits.workspace_floats * static_cast<std::int64_t>(sizeof(float))) {}

std::string CudaKernels::description() const {
  return fmt::format("CUDA, {}, {}", matmuls_.library_name(), attention_.description());
}

std::unique_ptr<Kernels> make_cuda_kernels(void* workspace, const CudaKernelSettings& settings) {
  return std::make_unique<CudaKernels>(workspace, CudaKernels::Limits{}, settings);
}

}  // namespace tessera
