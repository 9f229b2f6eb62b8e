// Causal attention forward on tensor cores (FlashAttention-2: Dao 2023). A block has a tile of queries, a warp 16 or 32
// of them with their whole output in registers; tiles of keys and values pass by, loaded one ahead.

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/attention_tiles.cuh"
#include "tessera/backend/cuda/launch.hpp"

namespace tessera {

namespace {

/// Tiles per head width: a warp has `kPieces` times 16 queries.
template <int D>
struct ForwardShape {
  static constexpr int kWarps = D == 64 ? 4 : 8, kPieces = D == 64 ? 2 : 1, kKeys = 64;
  static constexpr int kThreads = kWarps * 32, kQueries = kWarps * kPieces * 16;
};

template <class T, int D>
struct ForwardTiles {
  using Shape = ForwardShape<D>;
  using Queries = AttentionTile<T, Shape::kQueries, D>;
  using Keys = AttentionTile<T, Shape::kKeys, D>;
  static constexpr std::size_t kBytes = Queries::kBytes + 4 * Keys::kBytes;

  T* memory;

  // (Addresses are computed: an array of them, indexed by the stage, would lie in local memory.)
  __device__ Queries queries() const { return {memory}; }
  __device__ Keys keys(int stage) const { return {memory + (Queries::kBytes + stage * Keys::kBytes) / 2}; }
  __device__ Keys values(int stage) const { return {memory + (Queries::kBytes + (2 + stage) * Keys::kBytes) / 2}; }
};

/// A row's running maximum and sum, of its four threads: the sum is this thread's share.
struct RunningSoftmax {
  float top = -3.0e38f, sum = 0;
};

/// (Dropout has its own instance: its calls cost registers that the other has no spare of.)
template <class T, int D, bool Drops>
__global__ void __launch_bounds__(ForwardShape<D>::kThreads) forward_kernel(const AttentionForwardRows<T> a) {
  using Shape = ForwardShape<D>;
  constexpr int kKeys = Shape::kKeys, kPieces = Shape::kPieces;
  const ForwardTiles<T, D> tiles{dynamic_shared<T>()};
  const AttentionSizes& s = a.size;
  const int first =
      (static_cast<int>(gridDim.x) - 1 - static_cast<int>(blockIdx.x)) * Shape::kQueries;  // longest first
  const int head = static_cast<int>(blockIdx.y), batch = static_cast<int>(blockIdx.z);
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * kPieces * 16;
  const std::int64_t sample_row = std::int64_t{batch} * s.sequence, head_column = std::int64_t{head} * s.head_width;
  const std::int64_t kv_column = std::int64_t{head / s.group()} * s.head_width;
  const std::uint64_t sample_key = Drops ? s.dropout.key_of(batch) : 0;
  const int last = first + Shape::kQueries < s.sequence ? first + Shape::kQueries : s.sequence;
  const int key_tiles = (last + kKeys - 1) / kKeys;
  const auto load_keys = [&](int tile) {
    tiles.keys(tile % 2).template load<Shape::kThreads>(a.key, sample_row, tile * kKeys, s.sequence, kv_column,
                                                        s.head_width, a.aligned);
    tiles.values(tile % 2).template load<Shape::kThreads>(a.value, sample_row, tile * kKeys, s.sequence, kv_column,
                                                          s.head_width, a.aligned);
  };
  tiles.queries().template load<Shape::kThreads>(a.query, sample_row, first, s.sequence, head_column, s.head_width,
                                                 a.aligned);
  load_keys(0);
  cp_async_commit();

  const float scale = s.scale * kLog2e;  // scores in powers of two
  float out[kPieces][D / 8][4] = {};
  RunningSoftmax softmax[kPieces][2];  // rows g and g + 8
  for (int tile = 0; tile < key_tiles; ++tile) {
    if (tile + 1 < key_tiles) load_keys(tile + 1);
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    const auto keys = tiles.keys(tile % 2), values = tiles.values(tile % 2);
    float score[kPieces][kKeys / 8][4] = {};
#pragma unroll
    for (int k = 0; k < D; k += 16) {
      std::uint32_t x[kPieces][4];
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) tiles.queries().load_a(x[piece], warp_row + 16 * piece, k, lane);
#pragma unroll
      for (int n = 0; n < kKeys; n += 16) {
        std::uint32_t y[4];
        keys.load_b(y, n, k, lane);
#pragma unroll
        for (int piece = 0; piece < kPieces; ++piece) {
          mma_16816<T>(score[piece][n / 8], x[piece], y[0], y[1]);
          mma_16816<T>(score[piece][n / 8 + 1], x[piece], y[2], y[3]);
        }
      }
    }
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const int low_query = first + warp_row + 16 * piece + g;
      // The mask: only tiles that reach beyond the warp's first query have hidden keys.
      if ((tile + 1) * kKeys > first + warp_row + 16 * piece + 1) {
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int key = tile * kKeys + n * 8 + 2 * t + i % 2, query = low_query + 8 * (i / 2);
            if (key > query) score[piece][n][i] = -HUGE_VALF;
          }
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        RunningSoftmax& running = softmax[piece][half];
        float top = -3.0e38f;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
          top = larger(larger(top, score[piece][n][2 * half]), score[piece][n][2 * half + 1]);
        }
        top = larger(top, __shfl_xor_sync(kAllLanes, top, 1));
        top = larger(top, __shfl_xor_sync(kAllLanes, top, 2));
        const float new_top = larger(running.top, top * scale), shrink = exp2_fast(running.top - new_top);
        running.top = new_top;
        running.sum *= shrink;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& x = score[piece][n][2 * half + i];
            x = exp2_fast(fmaf(x, scale, -new_top));
            running.sum += x;
          }
        }
#pragma unroll
        for (int n = 0; n < D / 8; ++n) out[piece][n][2 * half] *= shrink, out[piece][n][2 * half + 1] *= shrink;
      }
      if constexpr (Drops) {
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int key = tile * kKeys + n * 8 + 2 * t + i % 2, query = low_query + 8 * (i / 2);
            if (key <= query) score[piece][n][i] *= s.mask(sample_key, head, query, key);
          }
        }
      }
    }
#pragma unroll
    for (int k = 0; k < kKeys; k += 16) {
      std::uint32_t x[kPieces][4];
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        const auto& p = score[piece];
        x[piece][0] = packed<T>(p[k / 8][0], p[k / 8][1]), x[piece][1] = packed<T>(p[k / 8][2], p[k / 8][3]);
        x[piece][2] = packed<T>(p[k / 8 + 1][0], p[k / 8 + 1][1]);
        x[piece][3] = packed<T>(p[k / 8 + 1][2], p[k / 8 + 1][3]);
      }
#pragma unroll
      for (int n = 0; n < D; n += 16) {
        std::uint32_t y[4];
        values.load_b_as_stored(y, k, n, lane);
#pragma unroll
        for (int piece = 0; piece < kPieces; ++piece) {
          mma_16816<T>(out[piece][n / 8], x[piece], y[0], y[1]);
          mma_16816<T>(out[piece][n / 8 + 1], x[piece], y[2], y[3]);
        }
      }
    }
    __syncthreads();  // the next round loads over these tiles
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
    // The warp's own rows of the query tile: nobody else reads them.
    tiles.queries().put(out[piece], row, inverse[0], inverse[1], lane);
    __syncwarp();
    tiles.queries().write(a.output, row, sample_row, first, s.sequence, head_column, s.head_width, a.aligned, lane);
  }
}

template <class T, int D>
void launch_forward(cudaStream_t stream, const AttentionForward& a) {
  const auto kernel = a.dropout.on() ? forward_kernel<T, D, true> : forward_kernel<T, D, false>;
  launch(stream, blocks_for(a.shape.sequence, ForwardShape<D>::kQueries, a.shape.heads, a.shape.batch),
         dim3(ForwardShape<D>::kThreads), ForwardTiles<T, D>::kBytes, kernel, rows_of<T>(a));
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
