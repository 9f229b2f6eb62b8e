// Causal attention backward on tensor cores, one kernel in two roles. Keys stay: a block has a tile of keys and values,
// and the queries that see them pass by (gradients of keys and values). Queries stay: the other way round (gradient of
// queries). With P = softmax, D = delta:
//   dV = P^T dO;  dS = P o (dO V^T - D) * scale;  dK = dS^T Q;  dQ = dS K.
// Either way scores and their gradients come out of the tensor cores just as the next product takes them in, in
// registers. The second role makes P and dS again (7 products instead of 5), so nothing is added up between blocks: no
// atomics, no order.

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/attention_tiles.cuh"
#include "tessera/backend/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr int kWarps = 4, kThreads = kWarps * 32, kStay = kWarps * 16;

template <int D>
constexpr int kPass = D == 64 ? 64 : 32;  ///< rows of a tile that passes by

template <class T, int D>
struct BackwardTiles {
  using Stay = AttentionTile<T, kStay, D>;
  using Pass = AttentionTile<T, kPass<D>, D>;
  static constexpr int kStatistics = 2 * 2 * (kStay > kPass<D> ? kStay : kPass<D>)*static_cast<int>(sizeof(float));
  static constexpr std::size_t kBytes = 2 * Stay::kBytes + 4 * Pass::kBytes + kStatistics;

  T* memory;

  /// Key and value; or query and d output.
  __device__ Stay x() const { return {memory}; }
  __device__ Stay y() const { return {memory + Stay::kBytes / 2}; }
  /// Query and d output; or key and value. (Addresses are computed: an array of them would lie in local memory.)
  __device__ Pass u(int stage) const { return {memory + (2 * Stay::kBytes + stage * Pass::kBytes) / 2}; }
  __device__ Pass w(int stage) const { return {memory + (2 * Stay::kBytes + (2 + stage) * Pass::kBytes) / 2}; }
  /// Of queries, where they pass: [2][kPass] log-sum-exps, [2][kPass] deltas.
  __device__ float* statistic() const {
    return reinterpret_cast<float*>(memory + (2 * Stay::kBytes + 4 * Pass::kBytes) / 2);
  }
};

/// Log-sum-exp (in powers of two) and delta of one query.
struct QueryStatistics {
  float log_sum_exp = 0, delta = 0;
};

/// (Dropout has its own instance: its calls cost registers that the other has no spare of.)
template <class T, int D, bool KeysStay, bool Drops>
__global__ void __launch_bounds__(kThreads) backward_kernel(const AttentionBackwardRows<T> a) {
  constexpr int kRows = kPass<D>;
  const BackwardTiles<T, D> tiles{dynamic_shared<T>()};
  const AttentionSizes& s = a.size;
  const int first = static_cast<int>(KeysStay ? blockIdx.x : gridDim.x - 1 - blockIdx.x) * kStay;  // the longest first
  const int batch = static_cast<int>(blockIdx.z);
  const int kv_head = static_cast<int>(blockIdx.y) / (KeysStay ? 1 : s.group());
  const int head_begin = static_cast<int>(blockIdx.y) * (KeysStay ? s.group() : 1);
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const std::int64_t sample_row = std::int64_t{batch} * s.sequence;
  const std::int64_t kv_column = std::int64_t{kv_head} * s.head_width;
  const std::uint64_t sample_key = Drops ? s.dropout.key_of(batch) : 0;
  const float scale = s.scale * kLog2e;

  const auto statistics_of = [&](int head, int query) -> QueryStatistics {
    if (query >= s.sequence) return {};
    const std::int64_t at = s.statistic(batch, head, query);
    return {a.log_sum_exp[at] * kLog2e, a.delta[at]};
  };
  // What passes: all tiles of the first head, then of the next one.
  const int tile_begin = KeysStay ? first / kRows : 0;
  const int pass_end = KeysStay || first + kStay > s.sequence ? s.sequence : first + kStay;
  const int tiles_of_head = (pass_end + kRows - 1) / kRows - tile_begin;
  const int rounds = tiles_of_head * (KeysStay ? s.group() : 1);
  const auto load_pass = [&](int round) {
    const int head = head_begin + round / tiles_of_head, from = (tile_begin + round % tiles_of_head) * kRows;
    const std::int64_t column = KeysStay ? std::int64_t{head} * s.head_width : kv_column;
    tiles.u(round % 2).template load<kThreads>(KeysStay ? a.query : a.key, sample_row, from, s.sequence, column,
                                               s.head_width, a.aligned);
    tiles.w(round % 2).template load<kThreads>(KeysStay ? a.output_gradient : a.value, sample_row, from, s.sequence,
                                               column, s.head_width, a.aligned);
    if (KeysStay && threadIdx.x < kRows) {
      const QueryStatistics q = statistics_of(head, from + static_cast<int>(threadIdx.x));
      tiles.statistic()[round % 2 * kRows + static_cast<int>(threadIdx.x)] = q.log_sum_exp;
      tiles.statistic()[(2 + round % 2) * kRows + static_cast<int>(threadIdx.x)] = q.delta;
    }
  };
  const std::int64_t stay_column = KeysStay ? kv_column : std::int64_t{head_begin} * s.head_width;
  tiles.x().template load<kThreads>(KeysStay ? a.key : a.query, sample_row, first, s.sequence, stay_column,
                                    s.head_width, a.aligned);
  tiles.y().template load<kThreads>(KeysStay ? a.value : a.output_gradient, sample_row, first, s.sequence, stay_column,
                                    s.head_width, a.aligned);
  load_pass(0);
  cp_async_commit();
  QueryStatistics own[2];  // queries stay: of rows g and g + 8
  if constexpr (!KeysStay) {
    own[0] = statistics_of(head_begin, first + warp_row + g);
    own[1] = statistics_of(head_begin, first + warp_row + g + 8);
  }

  float x_gradient[D / 8][4] = {}, y_gradient[KeysStay ? D / 8 : 1][4] = {};
  for (int round = 0; round < rounds; ++round) {
    if (round + 1 < rounds) load_pass(round + 1);
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    const auto u = tiles.u(round % 2), w = tiles.w(round % 2);
    float p[kRows / 8][4] = {}, ds[kRows / 8][4] = {};
    multiply_transposed<T, kRows, D>(p, tiles.x(), warp_row, u, lane);
    multiply_transposed<T, kRows, D>(ds, tiles.y(), warp_row, w, lane);
    const int head = head_begin + round / tiles_of_head, from = (tile_begin + round % tiles_of_head) * kRows;
    const int low_stay = first + warp_row + g;
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int stay = low_stay + 8 * (i / 2), column = n * 8 + 2 * t + i % 2, pass = from + column;
        const int query = KeysStay ? pass : stay, key = KeysStay ? stay : pass;
        QueryStatistics q = own[i / 2];
        if constexpr (KeysStay) {
          q = {tiles.statistic()[round % 2 * kRows + column], tiles.statistic()[(2 + round % 2) * kRows + column]};
        }
        const bool visible = key <= query && query < s.sequence;
        const float probability = visible ? exp2_fast(fmaf(p[n][i], scale, -q.log_sum_exp)) : 0.0f;
        float mask = 1.0f;
        if constexpr (Drops) mask = visible ? s.mask(sample_key, head, query, key) : 1.0f;
        ds[n][i] = visible ? probability * (ds[n][i] * mask - q.delta) * s.scale : 0.0f;
        p[n][i] = probability * mask;
      }
    }
    multiply_registers<T, D, kRows>(x_gradient, ds, u, lane);
    if constexpr (KeysStay) multiply_registers<T, D, kRows>(y_gradient, p, w, lane);
    __syncthreads();  // the next round loads over these tiles
  }
  cp_async_wait<0>();
  // The warp's own rows of the tiles that stayed: nobody else reads them.
  tiles.x().put(x_gradient, warp_row, 1.0f, 1.0f, lane);
  if constexpr (KeysStay) tiles.y().put(y_gradient, warp_row, 1.0f, 1.0f, lane);
  __syncwarp();
  tiles.x().write(KeysStay ? a.key_gradient : a.query_gradient, warp_row, sample_row, first, s.sequence, stay_column,
                  s.head_width, a.aligned, lane);
  if constexpr (KeysStay) {
    tiles.y().write(a.value_gradient, warp_row, sample_row, first, s.sequence, stay_column, s.head_width, a.aligned,
                    lane);
  }
}

template <class T, int D, bool Drops>
void launch_roles(cudaStream_t stream, const AttentionBackward& a, const float* delta) {
  const AttentionBackwardRows<T> rows = rows_of<T>(a, delta);
  const AttentionShape& s = a.shape;
  launch(stream, blocks_for(s.sequence, kStay, s.kv_heads, s.batch), dim3(kThreads), BackwardTiles<T, D>::kBytes,
         backward_kernel<T, D, true, Drops>, rows);
  launch(stream, blocks_for(s.sequence, kStay, s.heads, s.batch), dim3(kThreads), BackwardTiles<T, D>::kBytes,
         backward_kernel<T, D, false, Drops>, rows);
}

template <class T, int D>
void launch_backward(cudaStream_t stream, const AttentionBackward& a, const float* delta) {
  a.dropout.on() ? launch_roles<T, D, true>(stream, a, delta) : launch_roles<T, D, false>(stream, a, delta);
}

}  // namespace

void attention_backward_by_tensor_cores(cudaStream_t stream, const AttentionBackward& a, const float* delta) {
  const bool narrow = a.shape.head_width <= 64;
  if (a.query.dtype == DType::bf16) {
    narrow ? launch_backward<bf16, 64>(stream, a, delta) : launch_backward<bf16, 128>(stream, a, delta);
  } else {
    narrow ? launch_backward<fp16, 64>(stream, a, delta) : launch_backward<fp16, 128>(stream, a, delta);
  }
}

}  // namespace tessera
