#include "tessera/cuda/check.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera::detail {

void cuda_call_failed(cudaError_t code, const char* call, const char* file, int line) {
  // Errors stick to the thread until they are fetched; this one is being reported.
  static_cast<void>(cudaGetLastError());
  const char* const text = cudaGetErrorString(code);
  switch (code) {
    case cudaErrorMemoryAllocation:
      throw refusal("{} failed", call)
          .because("the GPU or the machine has no memory left: {}", text)
          .use("a smaller run, or fewer other processes on it");
    case cudaErrorInsufficientDriver:
      throw refusal("{} failed", call)
          .because("there is no NVIDIA driver, or one older than this build's CUDA {}.{}: {}", CUDART_VERSION / 1000,
                   CUDART_VERSION % 1000 / 10, text)
          .use("run.device = cpu, or a machine with a GPU and a driver for that version");
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion: {
      int device = 0;
      cudaDeviceProp gpu{};
      static_cast<void>(cudaGetDevice(&device));
      static_cast<void>(cudaGetDeviceProperties(&gpu, device));
      throw refusal("{} (sm_{}{}) cannot be used", static_cast<const char*>(gpu.name), gpu.major, gpu.minor)
          .because("this build has code only for {}", TESSERA_CUDA_CODE)
          .use("a build for it (from sm_80 on, TESSERA_CUDA_ARCHITECTURES), a newer driver, or run.device = cpu");
    }
    case cudaErrorNoDevice:
      throw refusal("{} failed", call)
          .because("there is no GPU: {}", text)
          .use("run.device = cpu, or a machine with a GPU");
    default:
      throw DeviceError("{} failed at {}:{} ({}: {})", call, file, line, cudaGetErrorName(code), text);
  }
}

}  // namespace tessera::detail
