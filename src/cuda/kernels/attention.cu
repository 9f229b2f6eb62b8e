// Chooses the attention kernels, and computes backward's input.

#include "cuda/kernels/attention.hpp"
#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/grid.hpp"
#include "cuda/kernels/packs.cuh"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr unsigned kThreads = 256;

/// Computes delta[batch, heads, sequence] = dot(output, output_gradient) of each head's row. `1 << log_lanes`
/// neighbours have a row: as many as a head has packs, at most a warp.
template <class T>
__global__ void __launch_bounds__(kThreads)
    delta_kernel(Rows<const T> output, Rows<const T> output_gradient, float* delta, std::uint32_t units,
                 std::int64_t sequence, std::uint32_t heads, std::int64_t width, int log_lanes, bool aligned) {
  const std::uint32_t thread = blockIdx.x * kThreads + threadIdx.x, unit = thread >> log_lanes;
  const int lanes = 1 << log_lanes, lane = static_cast<int>(thread) & (lanes - 1);
  const std::int64_t row = unit / heads, head = unit % heads;
  float sum = 0;
  for (std::int64_t column = std::int64_t{lane} * kPack; column < width && unit < units; column += lanes * kPack) {
    const StoredPack<T> x = load_pack(output.at(row, head * width + column), width - column, aligned);
    const StoredPack<T> y = load_pack(output_gradient.at(row, head * width + column), width - column, aligned);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum = fmaf(x[i], y[i], sum);
  }
  for (int half = lanes / 2; half >= 1; half /= 2) sum += __shfl_xor_sync(kAllLanes, sum, half);
  if (lane == 0 && unit < units) delta[(row / sequence * heads + head) * sequence + row % sequence] = sum;
}

bool by_tensor_cores(const AttentionShape& shape, DType dtype) {
  TESSERA_ASSERT(shape.head_width <= kWidestHead, "heads of {}", shape.head_width);
  return dtype != DType::fp32 && shape.head_width <= kWidestTensorCoreHead;
}

}  // namespace

void CudaKernels::enqueue(cudaStream_t stream, const AttentionForward& a) {
  if (attention_.run(stream, a)) return;
  if (by_tensor_cores(a.shape, a.query.dtype)) {
    attention_forward_by_tensor_cores(stream, a);
  } else {
    attention_forward_plain(stream, a);
  }
}

void CudaKernels::enqueue(cudaStream_t stream, const AttentionCached& a) {
  TESSERA_ASSERT(a.shape.head_width <= kWidestHead, "heads of {}", a.shape.head_width);
  attention_over_cache(stream, a);
}

void CudaKernels::enqueue(cudaStream_t stream, const AttentionBackward& a) {
  if (attention_.run(stream, a)) return;
  const AttentionShape& s = a.shape;
  ScratchLayout scratch(a.scratch, scratch_bytes_of<CudaAttentionBackwardLayout>(s));
  const CudaAttentionBackwardLayout layout(scratch, s);
  const std::int64_t units = s.batch * s.sequence * s.heads;
  TESSERA_ASSERT(units < std::int64_t{1} << 26, "attention of {} x {} x {} rows in one launch", s.batch, s.sequence,
                 s.heads);
  int log_lanes = 0;
  while (log_lanes < 5 && (kPack << log_lanes) < s.head_width) ++log_lanes;
  const bool aligned =
      is_aligned(a.output) && is_aligned(a.output_gradient) && s.head_width * size_of(a.output.dtype) % 16 == 0;
  with_float_type(a.output.dtype, [&]<class T>() {
    launch(stream, blocks_for(units << log_lanes, kThreads), dim3(kThreads), 0, delta_kernel<T>, rows_of<T>(a.output),
           rows_of<T>(a.output_gradient), layout.delta, static_cast<std::uint32_t>(units), s.sequence,
           static_cast<std::uint32_t>(s.heads), s.head_width, log_lanes, aligned);
  });
  if (by_tensor_cores(s, a.query.dtype)) {
    attention_backward_by_tensor_cores(stream, a, layout.delta);
  } else {
    attention_backward_plain(stream, a, layout.delta);
  }
}

}  // namespace tessera
