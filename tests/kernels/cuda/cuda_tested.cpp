#include <cstdlib>
#include <map>
#include <string_view>

#include "cuda/kernels/cuda_kernels.hpp"
#include "kernels/cuda/mirrored_kernels.hpp"
#include "kernels/cuda/test_device.hpp"
#include "kernels/tested.hpp"
#include "tessera/backend/cuda_device.hpp"
#include "tessera/cuda/check.hpp"

namespace tessera::testing {

namespace {

std::string_view wished_attention() {
  const char* const wish = std::getenv("TESSERA_TEST_ATTENTION");  // NOLINT(concurrency-mt-unsafe): nobody changes it
  return wish != nullptr ? wish : "";
}

/// A GPU, its kernels and their workspace.
struct Gpu {
  Gpu(const CudaKernels::Limits& limits, bool deterministic)
      : device(make_cuda_device(0)),
        workspace(device->allocate(MemoryKind::device, limits.workspace_bytes())),
        kernels(workspace->data(), limits, settings(deterministic)) {}
  static CudaKernelSettings settings(bool deterministic) {
    CudaKernelSettings settings;
    settings.attention = tested_attention() == GpuAttention::own ? AttentionChoice::own : AttentionChoice::cudnn;
    settings.deterministic = deterministic;
    return settings;
  }
  /// Before sm_90 cuDNN's backward needs more workspace than it gets, unless it is deterministic.
  static bool adds_in_any_order() {
    int major = 0;
    TESSERA_CHECK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    return major >= 9;
  }
  std::unique_ptr<tessera::Device> device;
  std::unique_ptr<DeviceMemory> workspace;
  CudaKernels kernels;
};

constexpr std::int64_t kFewLogitBytes = 80000, kFewFloats = 4000, kSomeFloats = 300000;

/// One of each for all tests: its memory and cuBLASLt's state are reused. They are never destroyed: at the process's
/// end the libraries, which came in later, are gone before any static object. (cuDNN's backward is not deterministic,
/// except where that is asked for.)
std::shared_ptr<Gpu> gpu_of(Pieces pieces) {
  const CudaKernels::Limits usual{CudaHeadLayout::kLogitBytes, kSomeFloats, library_workspace_bytes()};
  static auto& all = *new std::map<Pieces, std::shared_ptr<Gpu>>;
  std::shared_ptr<Gpu>& gpu = all[pieces];
  if (gpu == nullptr) {
    gpu = std::make_shared<Gpu>(
        pieces == Pieces::small ? CudaKernels::Limits{kFewLogitBytes, kFewFloats, library_workspace_bytes()} : usual,
        pieces != Pieces::loose && tested_attention() != GpuAttention::cudnn);
  }
  return gpu;
}

}  // namespace

DeviceKind tested_kind() { return DeviceKind::cuda; }

bool tested_has_fp8() {
  prepare_test_device(1);
  int major = 0, minor = 0;
  TESSERA_CHECK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  TESSERA_CHECK_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  return 10 * major + minor >= 89;
}

GpuAttention tested_attention() {
  if (!wished_attention().starts_with("cudnn")) return GpuAttention::own;
  const bool in_any_order = wished_attention() == "cudnn" && Gpu::adds_in_any_order();
  return in_any_order ? GpuAttention::cudnn : GpuAttention::deterministic_cudnn;
}

bool computes_documents() { return tested_attention() == GpuAttention::own || Gpu::adds_in_any_order(); }

Tested open_tested(int threads, InstructionSet, Pieces pieces) {
  prepare_test_device(threads);
  const auto gpu = gpu_of(pieces);
  return {gpu, gpu->device->make_stream("test"), make_mirrored_kernels(*gpu->device, gpu->kernels)};
}

std::int64_t head_scratch_of_tested(const HeadShape& shape, Pieces pieces) {
  const std::int64_t logit_bytes = pieces == Pieces::small ? kFewLogitBytes : CudaHeadLayout::kLogitBytes;
  return scratch_bytes_of<CudaHeadLayout>(shape, logit_bytes);
}

}  // namespace tessera::testing
