#include "cuda/kernels/cuda_kernels.hpp"

#include "cuda/backend/code_capability.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/cuda/check.hpp"
#include "tessera/cuda/launch.hpp"
#include "tessera/kernels/cuda_kernels.hpp"
#include "tessera/kernels/needs.hpp"

namespace tessera {

namespace {

void require_fp8() {
  int device = 0, major = 0, minor = 0;
  TESSERA_CHECK_CUDA(cudaGetDevice(&device));
  TESSERA_CHECK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  TESSERA_CHECK_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  if (10 * major + minor < kOldestWithFp8) {
    throw refusal("precision.linear = fp8 does not work with a GPU of compute capability {}.{}", major, minor)
        .because("its tensor cores do not multiply 8-bit floats")
        .use("precision.linear = compute, or a GPU from 8.9 on");
  }
  if (const int code = code_capability(); code < kOldestWithFp8) {
    throw refuse("precision.linear", "fp8")
        .because("this build's code for a GPU of compute capability {}.{} is sm_{}", major, minor, code)
        .use("a build with TESSERA_CUDA_ARCHITECTURES={}{}", major, minor);
  }
}

}  // namespace

static_assert(CudaKernels::Limits{}.workspace_bytes() == kMatmulWorkspaceBytes + kSumWorkspaceBytes);

CudaKernels::CudaKernels(void* workspace, const Limits& limits, const CudaKernelSettings& settings)
    : matmuls_(workspace, limits.library_bytes, settings.gemm),
      workspace_(reinterpret_cast<float*>(static_cast<std::byte*>(workspace) + limits.library_bytes)),
      limits_(limits),
      fuses_gelu_(!settings.deterministic),
      attention_(settings, workspace_, limits.workspace_floats * static_cast<std::int64_t>(sizeof(float))) {
  if (settings.fp8) require_fp8();
}

void CudaKernels::run(Stream& stream, const KernelArguments& call) {
  std::visit([&](const auto& a) { enqueue(cuda_stream(stream), a); }, call);
}

void CudaKernels::enqueue(cudaStream_t stream, const ParameterUpdate& a) {
  switch (a.rule) {
    case UpdateRule::adamw:
      return adamw(stream, a);
    case UpdateRule::muon:
      return muon(stream, a);
  }
}

Implementation CudaKernels::description() const {
  Implementation all = attention_.description();
  all.text = fmt::format("CUDA, {}, {}", matmuls_.library_name(), all.text);
  all.libraries.insert(all.libraries.begin(), {"cublaslt", matmuls_.library_version()});
  return all;
}

std::unique_ptr<Kernels> make_cuda_kernels(void* workspace, const CudaKernelSettings& settings) {
  return std::make_unique<CudaKernels>(workspace, CudaKernels::Limits{}, settings);
}

}  // namespace tessera
