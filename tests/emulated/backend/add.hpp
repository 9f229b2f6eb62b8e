#pragma once
// A kernel to put into streams.

#include <cuda_runtime_api.h>

namespace tessera::testing {

/// sum[i] = a[i] + b[i], i < n; all on the device.
void launch_add(cudaStream_t stream, const int* a, const int* b, int* sum, int n);

}  // namespace tessera::testing
