// The step's scalars on a GPU: one thread each, because they are a few hundred operations (kernels/scalar_rules.hpp).
#include "cuda/kernels/cuda_kernels.hpp"
#include "kernels/scalar_rules.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

__global__ void __launch_bounds__(1) account_loss_kernel(const AddLoss a) { account_loss_rule(a); }

__global__ void __launch_bounds__(1) clip_kernel(const Clip a) { clip_rule(a); }

}  // namespace

void CudaKernels::enqueue(cudaStream_t stream, const AddLoss& a) {
  launch(stream, dim3(1), dim3(1), 0, account_loss_kernel, a);
}

void CudaKernels::enqueue(cudaStream_t stream, const Clip& a) { launch(stream, dim3(1), dim3(1), 0, clip_kernel, a); }

}  // namespace tessera
