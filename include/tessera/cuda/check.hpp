#pragma once
// Turns return codes of the CUDA runtime into exceptions that name the call, its place, and CUDA's message.

#include <cuda_runtime_api.h>

namespace tessera::detail {

/// Throws UsageError if memory is short or no driver or GPU is there, DeviceError for everything else.
[[noreturn]] void cuda_call_failed(cudaError_t code, const char* call, const char* file, int line);

inline void check_cuda(cudaError_t code, const char* call, const char* file, int line) {
  if (code != cudaSuccess) cuda_call_failed(code, call, file, line);
}

}  // namespace tessera::detail

/// Calls and throws on failure. Errors of asynchronous work show at a later call: CUDA_LAUNCH_BLOCKING=1 finds the one.
#define TESSERA_CHECK_CUDA(call) ::tessera::detail::check_cuda((call), #call, __FILE__, __LINE__)
