// Which attention kernels run, and what backward needs before them.

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/cuda_kernels.hpp"
#include "kernels/cuda/grid.hpp"
#include "kernels/cuda/packs.cuh"
#include "tessera/backend/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr unsigned kThreads = 256;

/// delta[batch, heads, sequence] = dot(output, output_gradient) of each head's row: a warp each.
template <class T>
__global__ void __launch_bounds__(kThreads)
    delta_kernel(Rows<const T> output, Rows<const T> output_gradient, float* delta, std::int64_t rows,
                 std::int64_t sequence, std::int64_t heads, std::int64_t width, bool aligned) {
  const std::int64_t warp = std::int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  const std::int64_t row = warp / heads, head = warp % heads;
  if (row >= rows) return;
  float sum = 0;
  for (std::int64_t column = std::int64_t{threadIdx.x % 32} * kPack; column < width; column += 32 * kPack) {
    float x[kPack], y[kPack];
    load_pack(output.at(row, head * width + column), width - column, aligned, x);
    load_pack(output_gradient.at(row, head * width + column), width - column, aligned, y);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum = fmaf(x[i], y[i], sum);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) delta[(row / sequence * heads + head) * sequence + row % sequence] = sum;
}

bool by_tensor_cores(const AttentionShape& shape, DType dtype) {
  if (shape.head_width > kWidestHead) {
    throw UsageError("attention with heads of {} (the GPU's kernels keep a row of a head): up to {}", shape.head_width,
                     kWidestHead);
  }
  return dtype != DType::fp32 && shape.head_width <= kWidestTensorCoreHead;
}

}  // namespace

void CudaKernels::attention_forward(Stream& stream, const AttentionForward& a) {
  if (by_tensor_cores(a.shape, a.query.dtype)) {
    attention_forward_by_tensor_cores(cuda_stream(stream), a);
  } else {
    attention_forward_plain(cuda_stream(stream), a);
  }
}

void CudaKernels::attention_backward(Stream& stream, const AttentionBackward& a) {
  const AttentionShape& s = a.shape;
  Carver carver(a.scratch, attention_backward_scratch_bytes(s, a.query.dtype, DeviceKind::cuda));
  const CudaAttentionBackwardLayout layout(carver, s);
  const std::int64_t rows = s.batch * s.sequence;
  const bool aligned =
      is_aligned(a.output) && is_aligned(a.output_gradient) && s.head_width * size_of(a.output.dtype) % 16 == 0;
  with_float_type(a.output.dtype, [&]<class T>() {
    launch(cuda_stream(stream), blocks_for(rows * s.heads, kThreads / 32), dim3(kThreads), 0, delta_kernel<T>,
           rows_of<T>(a.output), rows_of<T>(a.output_gradient), layout.delta, rows, s.sequence, s.heads, s.head_width,
           aligned);
  });
  if (by_tensor_cores(s, a.query.dtype)) {
    attention_backward_by_tensor_cores(cuda_stream(stream), a, layout.delta);
  } else {
    attention_backward_plain(cuda_stream(stream), a, layout.delta);
  }
}

}  // namespace tessera
