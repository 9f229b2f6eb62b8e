// Causal attention forward on tensor cores (FlashAttention-2: Dao 2023). A block has a tile of queries, a warp 16 or 32
// of them with their output in registers. Tiles of keys and values pass by, loaded one ahead.

#include "cuda/kernels/attention.hpp"
#include "cuda/kernels/attention_tiles.cuh"
#include "cuda/kernels/shared_memory.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

/// Tiles per head width: a warp has `kPieces` times 16 queries (one, if two would not fit into registers).
template <int D, bool Drops>
struct ForwardShape {
  static constexpr int kPieces = D == 64 && !Drops ? 2 : 1, kWarps = 8 / kPieces, kKeys = 64;
  static constexpr int kThreads = kWarps * 32, kQueries = kWarps * kPieces * 16;
};

template <class T, class Shape, int D>
struct ForwardTiles {
  using Queries = AttentionTile<T, Shape::kQueries, D>;
  using Keys = AttentionTile<T, Shape::kKeys, D>;
  static constexpr std::size_t kBytes = Queries::kBytes + 4 * Keys::kBytes;
  static_assert(kBytes <= kSharedBytesEverywhere);

  T* memory;

  // Addresses are computed: an array of them, indexed by the stage, would lie in local memory.
  __device__ Queries queries() const { return {memory}; }
  __device__ Keys keys(int stage) const { return {memory + (Queries::kBytes + stage * Keys::kBytes) / 2}; }
  __device__ Keys values(int stage) const { return {memory + (Queries::kBytes + (2 + stage) * Keys::kBytes) / 2}; }
};

/// A row's softmax, for each of its four threads: the offset subtracted from its scores, and this thread's share of the
/// sum. The offset only has to be near the maximum. When a score is 2^kSlack above it, it moves and sums are scaled
/// down.
struct RunningSoftmax {
  float top = -3.0e38f, sum = 0;
};
constexpr float kSlack = 8;

/// Turns scores of a warp's 16 rows into exponentials; scales `out` down if a row's offset moves. `scale`: scores in
/// powers of two.
template <int Keys, int D>
__device__ __forceinline__ void update_softmax(RunningSoftmax (&softmax)[2], float (&score)[Keys / 8][4],
                                               float (&out)[D / 8][4], float scale) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    RunningSoftmax& running = softmax[half];
    float top = -3.0e38f;
#pragma unroll
    for (int n = 0; n < Keys / 8; ++n) top = larger(larger(top, score[n][2 * half]), score[n][2 * half + 1]);
    top = larger(top, __shfl_xor_sync(kAllLanes, top, 1));
    top = larger(top, __shfl_xor_sync(kAllLanes, top, 2));
    const bool moves = top * scale > running.top + kSlack;
    if (__any_sync(kAllLanes, moves ? 1 : 0) != 0) {
      const float new_top = moves ? top * scale : running.top, shrink = exp2_fast(running.top - new_top);
      running.top = new_top;
      running.sum *= shrink;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) out[n][2 * half] *= shrink, out[n][2 * half + 1] *= shrink;
    }
#pragma unroll
    for (int n = 0; n < Keys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& x = score[n][2 * half + i];
        x = exp2_fast(fmaf(x, scale, -running.top));
        running.sum += x;
      }
    }
  }
}

/// Applies the causal mask, for keys from `key` on (this thread's first of 8) and queries `query`, + 8.
template <int Keys>
__device__ __forceinline__ void hide(float (&score)[Keys / 8][4], int query, int key) {
#pragma unroll
  for (int n = 0; n < Keys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (key + n * 8 + i % 2 > query + 8 * (i / 2)) score[n][i] = -HUGE_VALF;
    }
  }
}

/// Hides the keys before `first[half]` of this thread's two queries, for keys from `key` on.
template <int Keys>
__device__ __forceinline__ void hide_before(float (&score)[Keys / 8][4], const int (&first)[2], int key) {
#pragma unroll
  for (int n = 0; n < Keys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (key + n * 8 + i % 2 < first[i / 2]) score[n][i] = -HUGE_VALF;
    }
  }
}

/// Applies dropout to the same.
template <int Keys>
__device__ __forceinline__ void drop(float (&score)[Keys / 8][4], const AttentionSizes& s, std::uint64_t sample_key,
                                     int head, int query, int key) {
#pragma unroll
  for (int n = 0; n < Keys / 8; n += 2) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float mask[2][2];
      s.masks(sample_key, head, query, key + n * 8 + j, mask);
#pragma unroll
      for (int i = 0; i < 4; ++i) score[n + i % 2][i / 2 * 2 + j] *= mask[i / 2][i % 2];
    }
  }
}

/// Dropout and masks by documents or windows have their own instances, because they need registers that the others
/// cannot spare.
template <class T, int D, bool Drops, bool Masked>
__global__ void __launch_bounds__(ForwardShape<D, Drops>::kThreads) forward_kernel(const AttentionForwardRows<T> a) {
  using Shape = ForwardShape<D, Drops>;
  constexpr int kKeys = Shape::kKeys, kPieces = Shape::kPieces;
  const ForwardTiles<T, Shape, D> tiles{dynamic_shared<T>()};
  const AttentionSizes& s = a.size;
  const int first =
      (static_cast<int>(gridDim.x) - 1 - static_cast<int>(blockIdx.x)) * Shape::kQueries;  // longest first
  const int head = static_cast<int>(blockIdx.y), batch = static_cast<int>(blockIdx.z);
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * kPieces * 16;
  const std::int64_t sample_row = std::int64_t{batch} * s.sequence, head_column = std::int64_t{head} * s.head_width;
  const std::int64_t kv_column = std::int64_t{head / s.group()} * s.head_width;
  const std::uint64_t sample_key = Drops ? s.dropout.key_of(batch) : 0;
  const MaskedKeys<Masked> visible(a.positions, sample_row, s);
  const int last = first + Shape::kQueries < s.sequence ? first + Shape::kQueries : s.sequence;
  // Tiles of keys are cut without regard to documents and windows; those that no query here sees are left out.
  const int key_tiles = (last + kKeys - 1) / kKeys, first_tile = visible.first_key(first) / kKeys;
  const auto load_keys = [&](int tile) {
    tiles.keys(tile % 2).template load<Shape::kThreads>(a.key, sample_row, tile * kKeys, s.sequence, kv_column,
                                                        s.head_width, a.aligned);
    tiles.values(tile % 2).template load<Shape::kThreads>(a.value, sample_row, tile * kKeys, s.sequence, kv_column,
                                                          s.head_width, a.aligned);
  };
  tiles.queries().template load<Shape::kThreads>(a.query, sample_row, first, s.sequence, head_column, s.head_width,
                                                 a.aligned);
  load_keys(first_tile);
  cp_async_commit();

  const LanePlaces<D> places(lane);
  const float scale = s.scale * kLog2e;
  float out[kPieces][D / 8][4] = {};
  RunningSoftmax softmax[kPieces][2];  // rows g and g + 8
  int first_key[kPieces][2] = {};      // of the same rows
  const int first_of_warp = visible.first_key(first + warp_row);
  if constexpr (Masked) {
#pragma unroll
    for (int i = 0; i < 2 * kPieces; ++i)
      first_key[i / 2][i % 2] = visible.first_key(first + warp_row + 16 * (i / 2) + g + 8 * (i % 2));
  }
  for (int tile = first_tile; tile < key_tiles; ++tile) {
    cp_async_wait<0>();
    __syncthreads();  // this tile is there, and the last one is no longer read
    if (tile + 1 < key_tiles) load_keys(tile + 1);
    cp_async_commit();
    // Otherwise all of its keys are hidden from this warp.
    if (tile * kKeys < first + warp_row + kPieces * 16 && (tile + 1) * kKeys > first_of_warp) {
      const auto keys = tiles.keys(tile % 2), values = tiles.values(tile % 2);
      float score[kPieces][kKeys / 8][4] = {};
      multiply_transposed<T, kKeys, D>(score, tiles.queries(), warp_row, keys, places);
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        const int query = first + warp_row + 16 * piece + g, key = tile * kKeys + 2 * t;
        if ((tile + 1) * kKeys > query - g + 1) hide<kKeys>(score[piece], query, key);
        if constexpr (Masked) hide_before<kKeys>(score[piece], first_key[piece], key);
        update_softmax<kKeys, D>(softmax[piece], score[piece], out[piece], scale);
        if constexpr (Drops) drop<kKeys>(score[piece], s, sample_key, head, query, key);
      }
      multiply_registers<T, D, kKeys>(out, score, values, places);
    }
  }
  cp_async_wait<0>();
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
    const int row = warp_row + 16 * piece;
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = softmax[piece][half].sum;
      sum += __shfl_xor_sync(kAllLanes, sum, 1);
      sum += __shfl_xor_sync(kAllLanes, sum, 2);
      inverse[half] = 1.0f / sum;
      const int query = first + row + g + 8 * half;
      if (t == 0 && query < s.sequence) {
        a.log_sum_exp[s.statistic(batch, head, query)] = softmax[piece][half].top * kLn2 + logf(sum);
      }
    }
    // The warp's own rows of the query tile: no other warp reads them, and its own lanes are done.
    __syncwarp();
    tiles.queries().put(out[piece], row, inverse[0], inverse[1], lane);
    __syncwarp();
    tiles.queries().write(a.output, row, sample_row, first, s.sequence, head_column, s.head_width, a.aligned, lane);
  }
}

template <class T, int D, bool Drops, bool Masked>
void launch_kernel(cudaStream_t stream, const AttentionForward& a) {
  using Shape = ForwardShape<D, Drops>;
  launch(stream, blocks_for(a.shape.sequence, Shape::kQueries, a.shape.heads, a.shape.batch), dim3(Shape::kThreads),
         ForwardTiles<T, Shape, D>::kBytes, forward_kernel<T, D, Drops, Masked>, rows_of<T>(a));
}

template <class T, int D>
void launch_forward(cudaStream_t stream, const AttentionForward& a) {
  if (is_masked(a)) {
    a.dropout.on() ? launch_kernel<T, D, true, true>(stream, a) : launch_kernel<T, D, false, true>(stream, a);
  } else {
    a.dropout.on() ? launch_kernel<T, D, true, false>(stream, a) : launch_kernel<T, D, false, false>(stream, a);
  }
}

}  // namespace

void attention_forward_by_tensor_cores(cudaStream_t stream, const AttentionForward& a) {
  const bool narrow = a.shape.head_width <= 64;
  if (a.query.dtype == DType::bf16) {
    narrow ? launch_forward<bf16, 64>(stream, a) : launch_forward<bf16, 128>(stream, a);
  } else {
    narrow ? launch_forward<fp16, 64>(stream, a) : launch_forward<fp16, 128>(stream, a);
  }
}

}  // namespace tessera
