#include "tessera/cuda/check.hpp"

#include "tessera/base/error.hpp"

namespace tessera::detail {

void cuda_call_failed(cudaError_t code, const char* call, const char* file, int line) {
  // Errors stick to the thread until they are fetched; this one is being reported.
  static_cast<void>(cudaGetLastError());
  const char* const text = cudaGetErrorString(code);
  switch (code) {
    case cudaErrorMemoryAllocation:
      throw UsageError(
          "{} failed (the GPU or the machine has no memory left: {}): a smaller run, or fewer others on it", call,
          text);
    case cudaErrorInsufficientDriver:
      throw UsageError(
          "{} failed (no NVIDIA driver, or one older than this build's CUDA {}.{}: {}): run.device = cpu, or a machine "
          "with a GPU and a driver for that version",
          call, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, text);
    case cudaErrorNoDevice:
      throw UsageError("{} failed (no GPU: {}): run.device = cpu, or a machine with a GPU", call, text);
    default:
      throw DeviceError("{} failed at {}:{} ({}: {})", call, file, line, cudaGetErrorName(code), text);
  }
}

}  // namespace tessera::detail
