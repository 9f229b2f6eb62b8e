// Embedding. Backward sorts the micro-batch's rows by token, then sums those of each token in their order: no atomics,
// the same bits always. Where positions restart, it does the same by position.

#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/dropout_mask.cuh"
#include "cuda/kernels/grid.hpp"
#include "cuda/kernels/packs.cuh"
#include "cuda/kernels/sort_tokens.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

/// A token that is not in the table has no row; NaN makes that visible (a kernel cannot throw).
template <class T>
__global__ void __launch_bounds__(kPlaceThreads)
    embedding_forward_kernel(const std::int32_t* tokens, const std::int32_t* places, Rows<const T> table,
                             Rows<const T> positions, Rows<T> output, std::int64_t rows, std::int64_t sequence,
                             std::int64_t width, std::int64_t vocab, float scale, DropoutSource dropout, bool aligned) {
  const Place at(rows, width);
  if (at.left <= 0) return;
  const std::int64_t row = at.row, column = at.column, left = at.left, token = tokens[row];
  const bool known = token >= 0 && token < vocab;
  StoredPack<T> of_token{}, of_position{};
  if (positions.data != nullptr) {
    of_position = load_pack(positions.at(places != nullptr ? places[row] : row % sequence, column), left, aligned);
  }
  if (known) of_token = load_pack(table.at(token, column), left, aligned);
  float x[kPack], mask[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    x[i] = known ? __fmul_rn(scale, of_token[i]) : __uint_as_float(0x7fc00000u);
    if (positions.data != nullptr) x[i] = __fadd_rn(x[i], of_position[i]);
  }
  if (dropout.on()) {
    dropout.row_masks(row, width, column, mask);
#pragma unroll
    for (int i = 0; i < kPack; ++i) x[i] = __fmul_rn(x[i], mask[i]);
  }
  store_pack(output.at(row, column), left, aligned, x);
}

constexpr unsigned kLanes = 32, kWarps = 8;
// Compute capability 10 has two blocks a multiprocessor anyway, but spills a register where that is not demanded.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200
constexpr unsigned kTokenBlocks = 2;
#else
constexpr unsigned kTokenBlocks = 0;  ///< the compiler's choice
#endif

template <class T>
struct TokenRows {
  const std::uint64_t* keys;  ///< sorted by token, then row
  Rows<const T> output_gradient;
  std::int64_t count, width, vocab;  ///< vocab: rows of the table; tokens beyond it have no gradient
  DropoutSource dropout;
  bool aligned;
  float scale = 1;  ///< of a finished sum
};

/// Adds the rows place_of(0), place_of(1), ... place_of(count - 1) in order. Four are under way at a time.
template <class T, class PlaceOf>
__device__ __forceinline__ void add_rows(const TokenRows<T>& a, std::int64_t count, std::int64_t column,
                                         std::int64_t left, PlaceOf place_of, float (&sum)[kPack]) {
  constexpr int kLoads = 4;
  for (std::int64_t first = 0; first < count; first += kLoads) {
    StoredPack<T> x[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::int64_t place = place_of(first + i);
      x[i] = load_pack(a.output_gradient.at(place, column), first + i < count ? left : 0, a.aligned);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (first + i >= count) break;
      float mask[kPack];
      if (a.dropout.on()) a.dropout.row_masks(place_of(first + i), a.width, column, mask);
#pragma unroll
      for (int j = 0; j < kPack; ++j) sum[j] += a.dropout.on() ? __fmul_rn(x[i][j], mask[j]) : x[i][j];
    }
  }
}

/// Writes a sum with its scale.
template <class T, class G>
__device__ __forceinline__ void write_sum(const TokenRows<T>& a, G* to, std::int64_t left, bool aligned, bool adds,
                                          float (&sum)[kPack]) {
#pragma unroll
  for (int i = 0; i < kPack; ++i) sum[i] = __fmul_rn(a.scale, sum[i]);
  write_gradient(to, left, aligned, adds, sum);
}

/// A block has 32 neighbours in the sorted order and 256 columns. It sums the runs of equal tokens, or positions, that
/// begin there.
/// Runs that end there go to the warps in turn. The last one may go on: each warp takes eight of its rows in turn, and
/// the warps' sums are then added in order.
template <class T, class G>
__global__ void __launch_bounds__(kLanes* kWarps, kTokenBlocks)
    token_gradient_kernel(const TokenRows<T> a, Rows<G> gradient, bool adds, bool gradient_aligned) {
  constexpr int kTurn = 8;
  __shared__ __align__(16) float of_warp[kWarps * kLanes * kPack];
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const std::int64_t base = std::int64_t{blockIdx.x} * kLanes, at = base + lane;
  const std::int64_t column = (std::int64_t{blockIdx.y} * kLanes + lane) * kPack, left = a.width - column;
  const std::uint64_t key = at < a.count ? a.keys[at] : 0;
  const auto token = static_cast<std::uint32_t>(key >> 32), place = static_cast<std::uint32_t>(key);
  const bool begins = at < a.count && (at == 0 || static_cast<std::uint32_t>(a.keys[at - 1] >> 32) != token);
  unsigned starts = __ballot_sync(kAllLanes, begins ? 1 : 0);
  if (starts == 0) return;  // the whole block
  for (int turn = 0; (starts & (starts - 1)) != 0; turn = (turn + 1) % static_cast<int>(kWarps)) {
    const int first = __ffs(static_cast<int>(starts)) - 1;
    starts &= starts - 1;
    const std::uint32_t mine = __shfl_sync(kAllLanes, token, first);
    if (turn != warp || mine >= a.vocab) continue;  // a whole warp; negative tokens are large here
    float sum[kPack] = {};
    const auto place_of = [&](std::int64_t i) { return __shfl_sync(kAllLanes, place, first + static_cast<int>(i)); };
    add_rows(a, __ffs(static_cast<int>(starts)) - 1 - first, column, left, place_of, sum);
    write_sum(a, gradient.at(mine, column), left, gradient_aligned, adds, sum);
  }
  const int first = __ffs(static_cast<int>(starts)) - 1;
  const std::uint32_t mine = __shfl_sync(kAllLanes, token, first);
  if (mine >= a.vocab) return;  // the whole block
  float sum[kPack] = {};
  for (std::int64_t from = base + first + warp * kTurn;; from += std::int64_t{kWarps} * kTurn) {
    const std::uint64_t other = lane < kTurn && from + lane < a.count ? a.keys[from + lane] : ~std::uint64_t{0};
    const bool same = lane < kTurn && static_cast<std::uint32_t>(other >> 32) == mine;
    const int rows = __popc(__ballot_sync(kAllLanes, same ? 1 : 0));
    const auto place_of = [&](std::int64_t i) {
      return __shfl_sync(kAllLanes, static_cast<std::uint32_t>(other), static_cast<int>(i));
    };
    add_rows(a, rows, column, left, place_of, sum);
    if (rows < kTurn) break;
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) of_warp[(warp * kPack + i) * static_cast<int>(kLanes) + lane] = sum[i];
  __syncthreads();
  if (warp != 0 || left <= 0) return;
  for (int other = 1; other < static_cast<int>(kWarps); ++other) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum[i] += of_warp[(other * kPack + i) * static_cast<int>(kLanes) + lane];
  }
  write_sum(a, gradient.at(mine, column), left, gradient_aligned, adds, sum);
}

/// A thread per position and pack sums over the batch, in order. Positions beyond the sequence have gradient zero.
template <class T, class G>
__global__ void __launch_bounds__(kPlaceThreads)
    position_gradient_kernel(const TokenRows<T> a, std::int64_t sequence, std::int64_t context, Rows<G> gradient,
                             bool adds, bool gradient_aligned) {
  const std::int64_t packs = (a.width + kPack - 1) / kPack;
  const std::int64_t index = std::int64_t{blockIdx.x} * kPlaceThreads + threadIdx.x;
  const std::int64_t position = index / packs, column = index % packs * kPack, left = a.width - column;
  if (position >= context) return;
  float sum[kPack] = {};
  if (position < sequence) {
    const std::int64_t batch = a.count / sequence;
    add_rows(
        a, batch, column, left, [&](std::int64_t i) { return position + i * sequence; }, sum);
  }
  write_gradient(gradient.at(position, column), left, gradient_aligned, adds, sum);
}

}  // namespace

void CudaKernels::enqueue(cudaStream_t stream, const EmbeddingForward& a) {
  const std::int64_t rows = a.batch * a.sequence;
  with_float_type(a.output.dtype, [&]<class T>() {
    const bool aligned = is_aligned(a.token_table) && is_aligned(a.position_table) && is_aligned(a.output);
    launch(stream, blocks_of_places(rows, a.width), dim3(kPlaceThreads), 0, embedding_forward_kernel<T>, a.tokens,
           a.positions, rows_of<T>(a.token_table), rows_of<T>(a.position_table), rows_of<T>(a.output), rows, a.sequence,
           a.width, a.vocab, a.scale, DropoutSource(a.dropout), aligned);
  });
}

void CudaKernels::enqueue(cudaStream_t stream, const EmbeddingBackward& a) {
  const std::int64_t tokens = a.batch * a.sequence;
  ScratchLayout scratch(a.scratch, gpu_kernel_needs().embedding_backward(tokens));
  const CudaEmbeddingBackwardLayout layout(scratch, tokens);
  with_float_type(a.output_gradient.dtype, [&]<class T>() {
    TokenRows<T> rows{nullptr,
                      rows_of<T>(a.output_gradient),
                      tokens,
                      a.width,
                      a.vocab,
                      DropoutSource(a.dropout),
                      is_aligned(a.output_gradient)};
    /// Sums the rows of each number, which is a token or a position, into that row of a table.
    const auto sum_rows_of = [&](const std::int32_t* numbers, std::int64_t table_rows, const GradientView& sum,
                                 float scale) {
      const View& gradient = sum.view;
      rows.keys = sort_tokens(stream, numbers, tokens, layout.keys, layout.merged);
      rows.vocab = table_rows, rows.scale = scale;
      if (!sum.adds) enqueue(stream, FillZero{gradient.data, table_rows * a.width * size_of(gradient.dtype)});
      with_float_type(gradient.dtype, [&]<class G>() {
        launch(stream, blocks_for(tokens, kLanes, ceil_div(a.width, kLanes * kPack)), dim3(kLanes, kWarps), 0,
               token_gradient_kernel<T, G>, rows, rows_of<G>(gradient), sum.adds, is_aligned(gradient));
      });
    };
    if (a.token_gradient) sum_rows_of(a.tokens, a.vocab, a.token_gradient, a.scale);
    if (a.position_gradient && a.positions != nullptr) {
      sum_rows_of(a.positions, a.context, a.position_gradient, 1);
    } else if (a.position_gradient) {
      const View& gradient = a.position_gradient.view;
      with_float_type(gradient.dtype, [&]<class G>() {
        launch(stream, blocks_of_places(a.context, a.width), dim3(kPlaceThreads), 0, position_gradient_kernel<T, G>,
               rows, a.sequence, a.context, rows_of<G>(gradient), a.position_gradient.adds, is_aligned(gradient));
      });
    }
  });
}

}  // namespace tessera
