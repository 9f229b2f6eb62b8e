#include "emulated/backend/add.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera::testing {

namespace {

__global__ void add_kernel(const int* a, const int* b, int* sum, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) sum[i] = a[i] + b[i];
}

}  // namespace

void launch_add(cudaStream_t stream, const int* a, const int* b, int* sum, int n) {
  constexpr int kThreads = 64;
  launch(stream, dim3(static_cast<unsigned>((n + kThreads - 1) / kThreads)), dim3(kThreads), 0, add_kernel, a, b, sum,
         n);
}

}  // namespace tessera::testing
