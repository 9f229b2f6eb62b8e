// Muon's Newton-Schulz iterations: bf16 matrices, matmuls with fp32 sums by cuBLASLt. The norm's sum of squares has one
// order: each block sums its rows, and all blocks of the next kernel sum the blocks' sums alike.

#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/grid.hpp"
#include "cuda/kernels/packs.cuh"
#include "kernels/gpu/layouts.hpp"
#include "kernels/newton_schulz.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr unsigned kThreads = 256;

/// Sums over the block in a tree of halves; all threads get it.
__device__ double block_sum(double x) {
  __shared__ double partial[kThreads];
  partial[threadIdx.x] = x;
  for (unsigned half = kThreads / 2; half >= 1; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
  }
  __syncthreads();
  return partial[0];
}

__global__ void __launch_bounds__(kThreads)
    squares_kernel(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t columns, double* sums) {
  double sum = 0;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    for (std::int64_t i = threadIdx.x; i < columns; i += kThreads) {
      const auto v = static_cast<double>(x[row * stride + i]);
      sum = __fma_rn(v, v, sum);
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// Writes x / max(|x|, epsilon), a row per block.
__global__ void __launch_bounds__(kThreads)
    normalize_kernel(const float* x, std::int64_t stride, std::int64_t columns, const double* sums, int count,
                     double epsilon, bf16* out, std::int64_t out_stride) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) sum += sums[i];
  const auto norm = static_cast<float>(fmax(sqrt(block_sum(sum)), epsilon));
  const std::int64_t row = blockIdx.x;
  for (std::int64_t i = threadIdx.x; i < columns; i += kThreads)
    out[row * out_stride + i] = from_float<bf16>(__fdiv_rn(x[row * stride + i], norm));
}

/// Widens a matrix, a row per block.
__global__ void __launch_bounds__(kThreads)
    widen_kernel(const bf16* x, std::int64_t stride, std::int64_t columns, float* out, std::int64_t out_stride) {
  const std::int64_t row = blockIdx.x;
  for (std::int64_t i = threadIdx.x; i < columns; i += kThreads)
    out[row * out_stride + i] = to_float(x[row * stride + i]);
}

}  // namespace

void CudaKernels::enqueue(cudaStream_t stream, const Orthogonalize& a) {
  ScratchLayout memory(a.scratch, gpu_kernel_needs().orthogonalize(a.rows, a.columns));
  const CudaOrthogonalizeLayout layout(memory, a.rows, a.columns);
  const auto* const input = static_cast<const float*>(a.input.data);
  View x{layout.x, DType::bf16, layout.stride}, next{layout.next, DType::bf16, layout.stride};
  if (a.input) {
    const std::int64_t count = std::min(a.rows, CudaOrthogonalizeLayout::kSums);
    launch(stream, blocks_for(count, 1), dim3(kThreads), 0, squares_kernel, input, a.input.stride, a.rows, a.columns,
           layout.sums);
    launch(stream, blocks_for(a.rows, 1), dim3(kThreads), 0, normalize_kernel, input, a.input.stride, a.columns,
           layout.sums, static_cast<int>(count), kNewtonSchulzEpsilon, static_cast<bf16*>(x.data), x.stride);
  }
  const auto multiply = [&](const Matmul& p) { a.input ? matmuls_.require(stream, p) : matmuls_.prepare(stream, p); };
  const bool wide = a.rows <= a.columns;
  const View gram{layout.gram, DType::bf16, layout.side_stride};
  const View polynomial{layout.polynomial, DType::bf16, layout.side_stride};
  for (std::int64_t step = 0; step < (a.input ? a.steps : 1); ++step) {
    Matmul p;
    p.m = p.n = std::min(a.rows, a.columns), p.k = std::max(a.rows, a.columns);
    p.a = {x, !wide}, p.b = {x, wide}, p.d = gram;
    multiply(p);
    p.k = p.m;
    p.a = p.b = {gram, false}, p.scale = kNewtonSchulz[2];
    p.c = gram, p.c_scale = kNewtonSchulz[1], p.d = polynomial;
    multiply(p);
    Matmul next_matmul;
    next_matmul.m = a.rows, next_matmul.n = a.columns, next_matmul.k = p.m;
    next_matmul.a = {wide ? polynomial : x, false}, next_matmul.b = {wide ? x : polynomial, false};
    next_matmul.c = x, next_matmul.c_scale = kNewtonSchulz[0], next_matmul.d = next;
    multiply(next_matmul);
    std::swap(x, next);
  }
  if (!a.input) return;
  launch(stream, blocks_for(a.rows, 1), dim3(kThreads), 0, widen_kernel, static_cast<const bf16*>(x.data), x.stride,
         a.columns, static_cast<float*>(a.output.data), a.output.stride);
}

}  // namespace tessera
