// Causal attention backward on tensor cores, one kernel in two roles. Keys stay: a block holds a tile of keys and
// values. The queries that see them pass by (gradients of keys and values). Queries stay: the other way round (gradient
// of queries). With P = softmax, D = delta:
//   dV = P^T dO;  dS = P o (dO V^T - D) * scale;  dK = dS^T Q;  dQ = dS K.
// Either way scores and their gradients leave the tensor cores in the registers and the layout of the next matmul's
// input. The second role recomputes P and dS (7 matmuls instead of 5), so nothing is added between blocks: no atomics,
// no order.

#include "cuda/kernels/attention.hpp"
#include "cuda/kernels/attention_tiles.cuh"
#include "cuda/kernels/shared_memory.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr int kWarps = 4, kThreads = kWarps * 32, kStay = kWarps * 16;

template <int D>
constexpr int kPass = D == 64 ? 64 : 32;  ///< rows of a tile that passes by
constexpr int kPart = 32;                 ///< rows of it at a time, to save registers

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000  // keys that stay take more registers there
constexpr bool kKeysTakeMore = true;
#else
constexpr bool kKeysTakeMore = false;
#endif

/// Blocks on a multiprocessor for which registers must suffice: as many as the compiler finds without spills.
template <int D, bool KeysStay, bool Drops, bool Masked>
constexpr int kBlocks = D == 64    ? (KeysStay ? 3 : 4) - (Drops || (KeysStay ? kKeysTakeMore : Masked) ? 1 : 0)
                        : KeysStay ? 2
                                   : (Masked ? 2 : 3);

template <class T, int D>
struct BackwardTiles {
  using Stay = AttentionTile<T, kStay, D>;
  using Pass = AttentionTile<T, kPass<D>, D>;
  static constexpr int kStatistics = 2 * 2 * (kStay > kPass<D> ? kStay : kPass<D>)*static_cast<int>(sizeof(float));
  static constexpr std::size_t kBytes = 2 * Stay::kBytes + 4 * Pass::kBytes + kStatistics;
  static_assert(kBytes <= kSharedBytesEverywhere);

  T* memory;

  /// Returns key and value; or query and d output.
  __device__ Stay x() const { return {memory}; }
  __device__ Stay y() const { return {memory + Stay::kBytes / 2}; }
  /// Returns query and d output; or key and value. Addresses are computed: an array of them would lie in local memory.
  __device__ Pass u(int stage) const { return {memory + (2 * Stay::kBytes + stage * Pass::kBytes) / 2}; }
  __device__ Pass w(int stage) const { return {memory + (2 * Stay::kBytes + (2 + stage) * Pass::kBytes) / 2}; }
  /// Returns values of queries, where they pass: [2][kPass] log-sum-exps, [2][kPass] deltas.
  __device__ float* statistic() const {
    return reinterpret_cast<float*>(memory + (2 * Stay::kBytes + 4 * Pass::kBytes) / 2);
  }
};

/// Log-sum-exp (in powers of two) and delta of one query, and the first key that it sees.
struct QueryStatistics {
  float log_sum_exp = 0, delta = 0;
  int first_key = 0;
};

/// A tile that passes by: rows `from` .. of a head.
struct PassingTile {
  int head, from;
};

/// A lane's part of a tile of scores: rows `stay` and + 8 of those that stay. Columns `pass`, + 1 and every eighth
/// after of those that pass.
struct ScorePlace {
  int head, stay, pass;
  std::uint64_t sample_key;
};

struct alignas(8) TwoFloats {
  float x[2];
};

/// Scores p and d probabilities ds of a warp's tile become probabilities (as dropped out) and d scores (without the
/// factor `scale`). Diagonal: some keys are hidden from some queries. Masked: documents or a window hide more of them.
/// Keys stay: log-sum-exps and deltas of the lane's columns lie at `passing`, [Columns] each and `delta` floats apart.
/// Otherwise those of its two rows are `own`. Queries beyond the sequence are rows of zeros with both 0: they add
/// nothing.
template <bool KeysStay, bool Drops, bool Masked, bool Diagonal, int Columns>
__device__ __forceinline__ void differentiate(float (&p)[Columns / 8][4], float (&ds)[Columns / 8][4],
                                              const AttentionSizes& s, const ScorePlace& at,
                                              const MaskedKeys<Masked>& visible, const QueryStatistics (&own)[2],
                                              const float* passing, int delta) {
  const float scale = s.scale * kLog2e;
#pragma unroll
  for (int pair = 0; pair < Columns / 8; pair += 2) {
    float mask[2][2][2];  // [column's parity][query's half][key's half]
    if constexpr (Drops) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int pass = at.pass + pair * 8 + j;
        s.masks(at.sample_key, at.head, KeysStay ? pass : at.stay, KeysStay ? at.stay : pass, mask[j]);
      }
    }
#pragma unroll
    for (int n = pair; n < pair + 2; ++n) {
      TwoFloats log_sum_exp{}, deltas{};
      if constexpr (KeysStay) {
        log_sum_exp = *reinterpret_cast<const TwoFloats*>(passing + n * 8);
        deltas = *reinterpret_cast<const TwoFloats*>(passing + delta + n * 8);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = i / 2, j = i % 2, stay = at.stay + 8 * row, pass = at.pass + n * 8 + j;
        const QueryStatistics q = KeysStay ? QueryStatistics{log_sum_exp.x[j], deltas.x[j]} : own[row];
        const float probability = exp2_fast(fmaf(p[n][i], scale, -q.log_sum_exp));
        float mask_of_one = 1;
        if constexpr (Drops) mask_of_one = KeysStay ? mask[j][n - pair][row] : mask[j][row][n - pair];
        const int query = KeysStay ? pass : stay, key = KeysStay ? stay : pass;
        bool hidden = Diagonal && key > query;
        if constexpr (Masked) hidden = hidden || key < (KeysStay ? visible.first_key(query) : q.first_key);
        p[n][i] = hidden ? 0.0f : probability * mask_of_one;
        ds[n][i] = hidden ? 0.0f : probability * (ds[n][i] * mask_of_one - q.delta);
      }
    }
  }
}

/// Dropout and masks by documents or windows have their own instances, because they need registers that the others
/// cannot spare.
template <class T, int D, bool KeysStay, bool Drops, bool Masked>
__global__ void __launch_bounds__(kThreads, kBlocks<D, KeysStay, Drops, Masked>)
    backward_kernel(const AttentionBackwardRows<T> a) {
  constexpr int kRows = kPass<D>;
  using Part = AttentionTile<T, kPart, D>;
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
  const MaskedKeys<Masked> visible(a.positions, sample_row, s);
  const auto statistics_of = [&](int head, int query) -> QueryStatistics {
    if (query >= s.sequence) return {};
    const std::int64_t at = s.statistic(batch, head, query);
    return {a.log_sum_exp[at] * kLog2e, a.delta[at], KeysStay ? 0 : visible.first_key(query)};
  };
  // Passing tiles: all of the first head, then those of the next one.
  // They are cut without regard to documents and windows; those without a pair of query and key that see each other are
  // left out.
  const int last = first + kStay < s.sequence ? first + kStay : s.sequence;
  const int pass_begin = (KeysStay ? first : visible.first_key(first)) / kRows * kRows;
  const int pass_end = KeysStay ? visible.end_of_queries(last - 1) : last;
  const auto after = [&](const PassingTile& tile) -> PassingTile {
    const int from = tile.from + kRows;
    return !KeysStay || from < pass_end ? PassingTile{tile.head, from} : PassingTile{tile.head + 1, pass_begin};
  };
  const int head_end = head_begin + (KeysStay ? s.group() : 1);
  const auto is_there = [&](const PassingTile& tile) { return KeysStay ? tile.head < head_end : tile.from < pass_end; };
  const auto load_pass = [&](const PassingTile& tile, int stage) {
    const std::int64_t column = KeysStay ? std::int64_t{tile.head} * s.head_width : kv_column;
    tiles.u(stage).template load<kThreads>(KeysStay ? a.query : a.key, sample_row, tile.from, s.sequence, column,
                                           s.head_width, a.aligned);
    tiles.w(stage).template load<kThreads>(KeysStay ? a.output_gradient : a.value, sample_row, tile.from, s.sequence,
                                           column, s.head_width, a.aligned);
  };
  const int member = static_cast<int>(threadIdx.x);
  const auto put_statistics = [&](const QueryStatistics& q, int stage) {
    tiles.statistic()[stage * kRows + member] = q.log_sum_exp;
    tiles.statistic()[(2 + stage) * kRows + member] = q.delta;
  };
  const std::int64_t stay_column = KeysStay ? kv_column : std::int64_t{head_begin} * s.head_width;
  tiles.x().template load<kThreads>(KeysStay ? a.key : a.query, sample_row, first, s.sequence, stay_column,
                                    s.head_width, a.aligned);
  tiles.y().template load<kThreads>(KeysStay ? a.value : a.output_gradient, sample_row, first, s.sequence, stay_column,
                                    s.head_width, a.aligned);
  PassingTile tile{head_begin, pass_begin};
  load_pass(tile, 0);
  cp_async_commit();
  QueryStatistics own[2];  // queries stay: of rows g and g + 8
  if constexpr (KeysStay) {
    if (member < kRows) put_statistics(statistics_of(tile.head, tile.from + member), 0);
  } else {
    own[0] = statistics_of(head_begin, first + warp_row + g);
    own[1] = statistics_of(head_begin, first + warp_row + g + 8);
  }

  const LanePlaces<D> places(lane);
  float x_gradient[1][D / 8][4] = {}, y_gradient[1][KeysStay ? D / 8 : 1][4] = {};
  for (int stage = 0; is_there(tile); stage = 1 - stage) {
    const PassingTile next = after(tile);
    cp_async_wait<0>();
    __syncthreads();  // this round's tiles are there, and the last round's are no longer read
    QueryStatistics ahead;
    if (is_there(next)) {
      load_pass(next, 1 - stage);
      if (KeysStay && member < kRows) ahead = statistics_of(next.head, next.from + member);
    }
    cp_async_commit();
    const int low = first + warp_row;  // the warp's first row
#pragma unroll 1
    for (int part = 0; part < kRows; part += kPart) {
      const int from = tile.from + part;
      if (KeysStay ? from + kPart <= low : from >= low + 16) continue;  // all of its keys are hidden
      if (KeysStay ? visible.first_key(from) >= low + 16 : from + kPart <= visible.first_key(low)) continue;
      const Part u{tiles.u(stage).data + part * D}, w{tiles.w(stage).data + part * D};
      float p[1][kPart / 8][4] = {}, ds[1][kPart / 8][4] = {};
      multiply_transposed<T, kPart, D>(p, tiles.x(), warp_row, u, places);
      multiply_transposed<T, kPart, D>(ds, tiles.y(), warp_row, w, places);
      const ScorePlace at{tile.head, low + g, from + 2 * t, sample_key};
      const float* passing = tiles.statistic() + stage * kRows + part + 2 * t;
      if (KeysStay ? from < low + 15 : from + kPart - 1 > low) {
        differentiate<KeysStay, Drops, Masked, true, kPart>(p[0], ds[0], s, at, visible, own, passing, 2 * kRows);
      } else {
        differentiate<KeysStay, Drops, Masked, false, kPart>(p[0], ds[0], s, at, visible, own, passing, 2 * kRows);
      }
      multiply_registers<T, D, kPart>(x_gradient, ds, u, places);
      if constexpr (KeysStay) multiply_registers<T, D, kPart>(y_gradient, p, w, places);
    }
    if (KeysStay && member < kRows) put_statistics(ahead, 1 - stage);
    tile = next;
  }
  cp_async_wait<0>();
  // The warp's own rows of the tiles that stayed: no other warp reads them, and its own lanes are done.
  __syncwarp();
  tiles.x().put(x_gradient[0], warp_row, s.scale, s.scale, lane);
  if constexpr (KeysStay) tiles.y().put(y_gradient[0], warp_row, 1.0f, 1.0f, lane);
  __syncwarp();
  tiles.x().write(KeysStay ? a.key_gradient : a.query_gradient, warp_row, sample_row, first, s.sequence, stay_column,
                  s.head_width, a.aligned, lane);
  if constexpr (KeysStay) {
    tiles.y().write(a.value_gradient, warp_row, sample_row, first, s.sequence, stay_column, s.head_width, a.aligned,
                    lane);
  }
}

template <class T, int D, bool Drops, bool Masked>
void launch_roles(cudaStream_t stream, const AttentionBackward& a, const float* delta) {
  const AttentionBackwardRows<T> rows = rows_of<T>(a, delta);
  const AttentionShape& s = a.shape;
  launch(stream, blocks_for(s.sequence, kStay, s.kv_heads, s.batch), dim3(kThreads), BackwardTiles<T, D>::kBytes,
         backward_kernel<T, D, true, Drops, Masked>, rows);
  launch(stream, blocks_for(s.sequence, kStay, s.heads, s.batch), dim3(kThreads), BackwardTiles<T, D>::kBytes,
         backward_kernel<T, D, false, Drops, Masked>, rows);
}

template <class T, int D>
void launch_backward(cudaStream_t stream, const AttentionBackward& a, const float* delta) {
  if (is_masked(a)) {
    a.dropout.on() ? launch_roles<T, D, true, true>(stream, a, delta)
                   : launch_roles<T, D, false, true>(stream, a, delta);
  } else {
    a.dropout.on() ? launch_roles<T, D, true, false>(stream, a, delta)
                   : launch_roles<T, D, false, false>(stream, a, delta);
  }
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
