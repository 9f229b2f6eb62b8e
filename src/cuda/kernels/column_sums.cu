#include "cuda/kernels/column_sums.hpp"
#include "cuda/kernels/grid.hpp"
#include "cuda/kernels/packs.cuh"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr unsigned kLanes = 32, kWarps = 8;

constexpr unsigned kPartWarps = 32;  ///< so that all parts are under way at once: the time is memory latency, not work

template <class G>
struct ColumnSums {
  const float* parts[2];
  G* gradient[2];
  bool adds[2];
};

/// A block sums 32 columns: each warp every 32nd part, then the warps in order.
template <class G>
__global__ void __launch_bounds__(kLanes* kPartWarps)
    sum_columns_kernel(const ColumnSums<G> a, std::int64_t count, std::int64_t width) {
  __shared__ __align__(16) float of_warp[kLanes * kPartWarps];
  const bool second = blockIdx.y != 0;
  const float* parts = second ? a.parts[1] : a.parts[0];
  const std::int64_t column = std::int64_t{blockIdx.x} * kLanes + threadIdx.x;
  float sum = 0;
  if (column < width) {
#pragma unroll 16
    for (std::int64_t part = threadIdx.y; part < count; part += kPartWarps) sum += parts[part * width + column];
  }
  of_warp[threadIdx.y * kLanes + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
#pragma unroll
  for (unsigned warp = 1; warp < kPartWarps; ++warp) sum += of_warp[warp * kLanes + threadIdx.x];
  G* gradient = (second ? a.gradient[1] : a.gradient[0]) + column;
  *gradient = from_float<G>((second ? a.adds[1] : a.adds[0]) ? to_float(*gradient) + sum : sum);
}

/// A block sums a group of rows over 256 columns: each warp every eighth row, then the warps in order.
template <class T>
__global__ void __launch_bounds__(kLanes* kWarps)
    group_sums_kernel(Rows<const T> matrix, std::int64_t rows, std::int64_t group, std::int64_t width, float* parts,
                      bool aligned) {
  __shared__ __align__(16) float of_warp[kWarps * kLanes * kPack];
  const std::int64_t column = (std::int64_t{blockIdx.x} * kLanes + threadIdx.x) * kPack, left = width - column;
  const std::int64_t begin = std::int64_t{blockIdx.y} * group, end = begin + group < rows ? begin + group : rows;
  float sum[kPack] = {};
#pragma unroll 4
  for (std::int64_t row = begin + threadIdx.y; row < end; row += kWarps) {
    const StoredPack<T> x = load_pack(matrix.at(row, column), left, aligned);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum[i] += x[i];
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) of_warp[(threadIdx.y * kPack + i) * kLanes + threadIdx.x] = sum[i];
  __syncthreads();
  const unsigned slot = threadIdx.y;  // the warps share out the packs' elements
  float total = 0;
  for (unsigned warp = 0; warp < kWarps; ++warp) total += of_warp[(warp * kPack + slot) * kLanes + threadIdx.x];
  static_assert(kWarps == kPack);
  if (slot < left) parts[std::int64_t{blockIdx.y} * width + column + slot] = total;
}

}  // namespace

void sum_columns(cudaStream_t stream, std::int64_t count, std::int64_t width, const ColumnSum& first,
                 const ColumnSum& second) {
  const DType dtype = first.gradient.view.dtype;
  TESSERA_ASSERT(!second.gradient || second.gradient.view.dtype == dtype, "column sums into {} and {}", name_of(dtype),
                 name_of(second.gradient.view.dtype));
  with_float_type(dtype, [&]<class G>() {
    const ColumnSums<G> sums{{first.parts, second.parts},
                             {static_cast<G*>(first.gradient.view.data), static_cast<G*>(second.gradient.view.data)},
                             {first.gradient.adds, second.gradient.adds}};
    launch(stream, blocks_for(width, kLanes, second.gradient ? 2 : 1), dim3(kLanes, kPartWarps), 0,
           sum_columns_kernel<G>, sums, count, width);
  });
}

void sum_rows(cudaStream_t stream, const ConstView& matrix, std::int64_t rows, std::int64_t width,
              const GradientView& gradient, float* workspace, std::int64_t workspace_floats) {
  const std::int64_t most = std::min<std::int64_t>({256, workspace_floats / width, ceil_div(rows, 64)});
  TESSERA_ASSERT(most >= 1, "sums of {} columns in a workspace of {}", width, workspace_floats);
  const std::int64_t group = ceil_div(rows, most), groups = ceil_div(rows, group);
  with_float_type(matrix.dtype, [&]<class T>() {
    launch(stream, blocks_for(width, kLanes * kPack, groups), dim3(kLanes, kWarps), 0, group_sums_kernel<T>,
           rows_of<T>(matrix), rows, group, width, workspace, is_aligned(matrix));
  });
  sum_columns(stream, groups, width, {workspace, gradient});
}

}  // namespace tessera
