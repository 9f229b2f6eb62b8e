// Embedding. Backward sorts the micro-batch's places by token, then one block sums the rows of each token in their
// order: no atomics, the same bits always.

#include "kernels/cuda/cuda_kernels.hpp"
#include "kernels/cuda/dropout_mask.cuh"
#include "kernels/cuda/gradient_pack.cuh"
#include "kernels/cuda/grid.hpp"
#include "kernels/cuda/packs.cuh"
#include "tessera/backend/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr unsigned kThreads = 256;

/// A token that is not in the table has no row; NaN makes that seen (a kernel cannot throw).
template <class T>
__global__ void __launch_bounds__(kThreads)
    embedding_forward_kernel(const std::int32_t* tokens, Rows<const T> table, Rows<const T> positions, Rows<T> output,
                             std::int64_t rows, std::int64_t sequence, std::int64_t width, std::int64_t vocab,
                             DropoutSource dropout, bool aligned) {
  const std::int64_t packs = (width + kPack - 1) / kPack;
  const std::uint32_t index = blockIdx.x * kThreads + threadIdx.x;
  const std::int64_t row = index / static_cast<std::uint32_t>(packs);
  const std::int64_t column = static_cast<std::int64_t>(index % static_cast<std::uint32_t>(packs)) * kPack;
  if (row >= rows) return;
  const std::int64_t left = width - column, token = tokens[row];
  float x[kPack], y[kPack];
  if (token >= 0 && token < vocab) {
    load_pack(table.at(token, column), left, aligned, x);
  } else {
#pragma unroll
    for (float& v : x) v = __uint_as_float(0x7fc00000u);
  }
  if (positions.data != nullptr) {
    load_pack(positions.at(row % sequence, column), left, aligned, y);
#pragma unroll
    for (int i = 0; i < kPack; ++i) x[i] = __fadd_rn(x[i], y[i]);
  }
  if (dropout.on()) {
    dropout.row_masks(row, width, column, y);
#pragma unroll
    for (int i = 0; i < kPack; ++i) x[i] = __fmul_rn(x[i], y[i]);
  }
  store_pack(output.at(row, column), left, aligned, x);
}

/// order[k] = the place that is k-th by (token, place): each place counts those before it.
__global__ void __launch_bounds__(kThreads)
    sort_places_kernel(const std::int32_t* tokens, std::int32_t* order, std::int32_t count) {
  TESSERA_SHARED(std::int32_t, tile, kThreads * 4);
  const auto place = static_cast<std::int32_t>(blockIdx.x * kThreads + threadIdx.x);
  const std::int32_t mine = place < count ? tokens[place] : 0;
  std::int32_t before = 0;
  for (std::int32_t first = 0; first < count; first += static_cast<std::int32_t>(kThreads) * 4) {
    const std::int32_t size = count - first < static_cast<std::int32_t>(kThreads) * 4
                                  ? count - first
                                  : static_cast<std::int32_t>(kThreads) * 4;
    __syncthreads();
    for (auto i = static_cast<std::int32_t>(threadIdx.x); i < size; i += kThreads) tile[i] = tokens[first + i];
    __syncthreads();
    // Equal tokens come before where their place does.
    const std::int32_t earlier = place - first < 0 ? 0 : place - first < size ? place - first : size;
#pragma unroll 8
    for (std::int32_t i = 0; i < earlier; ++i) before += tile[i] <= mine ? 1 : 0;
#pragma unroll 8
    for (std::int32_t i = earlier; i < size; ++i) before += tile[i] < mine ? 1 : 0;
  }
  if (place < count) order[before] = place;
}

constexpr unsigned kLanes = 32, kWarps = 4;

template <class T>
struct TokenRows {
  const std::int32_t *tokens, *order;
  Rows<const T> output_gradient;
  std::int64_t count, width, vocab;
  DropoutSource dropout;
  bool aligned;
};

template <class T>
__device__ void add_row(const TokenRows<T>& a, std::int64_t place, std::int64_t column, std::int64_t left,
                        float (&sum)[kPack]) {
  float x[kPack];
  load_pack(a.output_gradient.at(place, column), left, a.aligned, x);
  if (a.dropout.on()) {
    float mask[kPack];
    a.dropout.row_masks(place, a.width, column, mask);
#pragma unroll
    for (int i = 0; i < kPack; ++i) x[i] = __fmul_rn(x[i], mask[i]);
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) sum[i] += x[i];
}

/// A block per sorted place and 256 columns; it works where a token's run starts. Each warp sums every fourth row, then
/// the warps in order.
template <class T, class G>
__global__ void __launch_bounds__(kLanes* kWarps)
    token_gradient_kernel(const TokenRows<T> a, Rows<G> gradient, bool adds, bool gradient_aligned) {
  TESSERA_SHARED(float, of_warp, kWarps* kLanes* kPack);
  const std::int64_t start = blockIdx.x;
  const std::int32_t token = a.tokens[a.order[start]];
  if (token < 0 || token >= a.vocab) return;
  if (start > 0 && a.tokens[a.order[start - 1]] == token) return;
  const std::int64_t column = (std::int64_t{blockIdx.y} * kLanes + threadIdx.x) * kPack, left = a.width - column;
  float sum[kPack] = {};
  for (std::int64_t k = start + threadIdx.y; k < a.count; k += kWarps) {
    const std::int32_t place = a.order[k];
    if (a.tokens[place] != token) break;
    add_row(a, place, column, left, sum);
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) of_warp[(threadIdx.y * kPack + i) * kLanes + threadIdx.x] = sum[i];
  __syncthreads();
  if (threadIdx.y != 0 || left <= 0) return;
  for (unsigned warp = 1; warp < kWarps; ++warp) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum[i] += of_warp[(warp * kPack + i) * kLanes + threadIdx.x];
  }
  write_gradient(gradient.at(token, column), left, gradient_aligned, adds, sum);
}

/// A thread per position and pack sums over the batch, in order. Positions beyond the sequence have gradient zero.
template <class T, class G>
__global__ void __launch_bounds__(kThreads)
    position_gradient_kernel(const TokenRows<T> a, std::int64_t sequence, std::int64_t context, Rows<G> gradient,
                             bool adds, bool gradient_aligned) {
  const std::int64_t packs = (a.width + kPack - 1) / kPack;
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t position = index / packs, column = index % packs * kPack, left = a.width - column;
  if (position >= context) return;
  float sum[kPack] = {};
  if (position < sequence) {
    for (std::int64_t place = position; place < a.count; place += sequence) add_row(a, place, column, left, sum);
  }
  write_gradient(gradient.at(position, column), left, gradient_aligned, adds, sum);
}

}  // namespace

void CudaKernels::embedding_forward(Stream& stream, const EmbeddingForward& a) {
  const std::int64_t rows = a.batch * a.sequence, packs = checked_multiply(rows, ceil_div(a.width, kPack));
  TESSERA_ASSERT(packs < (std::int64_t{1} << 31), "an embedding of {} x {} in one launch", rows, a.width);
  with_float_type(a.output.dtype, [&]<class T>() {
    const bool aligned = is_aligned(a.token_table) && is_aligned(a.position_table) && is_aligned(a.output);
    launch(cuda_stream(stream), blocks_for(packs, kThreads), dim3(kThreads), 0, embedding_forward_kernel<T>, a.tokens,
           rows_of<T>(a.token_table), rows_of<T>(a.position_table), rows_of<T>(a.output), rows, a.sequence, a.width,
           a.vocab, DropoutSource(a.dropout), aligned);
  });
}

void CudaKernels::embedding_backward(Stream& stream, const EmbeddingBackward& a) {
  const std::int64_t tokens = a.batch * a.sequence;
  TESSERA_ASSERT(tokens <= 0x7fffffff - 1024, "a micro-batch of {} tokens", tokens);
  auto* order = static_cast<std::int32_t*>(a.scratch);
  const cudaStream_t s = cuda_stream(stream);
  with_float_type(a.output_gradient.dtype, [&]<class T>() {
    const TokenRows<T> rows{a.tokens, order,   rows_of<T>(a.output_gradient), tokens,
                            a.width,  a.vocab, DropoutSource(a.dropout),      is_aligned(a.output_gradient)};
    if (a.token_gradient) {
      const View& gradient = a.token_gradient.view;
      launch(s, blocks_for(tokens, kThreads), dim3(kThreads), 0, sort_places_kernel, a.tokens, order,
             static_cast<std::int32_t>(tokens));
      if (!a.token_gradient.adds) fill_zero(stream, gradient.data, a.vocab * a.width * size_of(gradient.dtype));
      with_float_type(gradient.dtype, [&]<class G>() {
        launch(s, blocks_for(tokens, 1, ceil_div(a.width, kLanes * kPack)), dim3(kLanes, kWarps), 0,
               token_gradient_kernel<T, G>, rows, rows_of<G>(gradient), a.token_gradient.adds, is_aligned(gradient));
      });
    }
    if (a.position_gradient) {
      const View& gradient = a.position_gradient.view;
      with_float_type(gradient.dtype, [&]<class G>() {
        launch(s, blocks_for(a.context * ceil_div(a.width, kPack), kThreads), dim3(kThreads), 0,
               position_gradient_kernel<T, G>, rows, a.sequence, a.context, rows_of<G>(gradient),
               a.position_gradient.adds, is_aligned(gradient));
      });
    }
  });
}

}  // namespace tessera
