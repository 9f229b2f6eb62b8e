// Causal attention in fp32 arithmetic, for any storage and heads of up to 256. Tiles of 32 queries and 32 keys are in
// shared memory, and eight threads have a row; of heads above 128, tiles of 16 and sixteen threads. Forward is an
// online softmax (Milakov & Gimelshein 2018; Dao et al. 2022). Backward is one kernel in two roles. Keys stay and
// queries pass by (gradients of keys and values), or the other way round (gradient of queries). Each role recomputes
// the probabilities, so nothing is added between blocks.

#include "cuda/kernels/attention.hpp"
#include "cuda/kernels/attention_problem.cuh"
#include "cuda/kernels/shared_memory.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr int kThreads = 256;
/// Rows of a tile of heads of D, so that a block's tiles fit every GPU, and threads that share a row.
template <int D>
constexpr int kTileOf = D <= 128 ? 32 : 16;
template <int D>
constexpr int kShareOf = kThreads / kTileOf<D>;

/// Loads the tile's rows from `first` on of one head as fp32 with `D` columns; zeros beyond the sequence and the head's
/// width.
template <int D, class T>
__device__ void load_tile(float* tile, const Rows<const T>& rows, std::int64_t sample_row, int first, int sequence,
                          std::int64_t head_column, int width) {
  for (int i = static_cast<int>(threadIdx.x); i < kTileOf<D> * D; i += kThreads) {
    const int row = i / D, column = i % D;
    const bool inside = first + row < sequence && column < width;
    tile[row * (D + 1) + column] = inside ? to_float(*rows.at(sample_row + first + row, head_column + column)) : 0.0f;
  }
}

template <int D>
__device__ float dot(const float* x, const float* y) {
  float sum = 0;
#pragma unroll 8
  for (int c = 0; c < D; ++c) sum = fmaf(x[c], y[c], sum);
  return sum;
}

/// Sums over the threads that share a row.
template <int D>
__device__ __forceinline__ float share_sum(float x) {
  for (int half = kShareOf<D> / 2; half >= 1; half /= 2) x += __shfl_xor_sync(kAllLanes, x, half);
  return x;
}
template <int D>
__device__ __forceinline__ float share_maximum(float x) {
  for (int half = kShareOf<D> / 2; half >= 1; half /= 2) x = larger(x, __shfl_xor_sync(kAllLanes, x, half));
  return x;
}

template <int D>
constexpr std::size_t forward_shared_bytes() {
  constexpr std::size_t tile = kTileOf<D>;
  return sizeof(float) * (3 * tile * (D + 1) + tile * (tile + 1)) + sizeof(int) * tile;
}

/// Masks by documents or windows have their own instance because of the registers that they need.
template <class T, int D, bool Masked>
__global__ void __launch_bounds__(kThreads, Masked ? 1 : 0) forward_kernel(const AttentionForwardRows<T> a) {
  constexpr int kTile = kTileOf<D>, kShare = kShareOf<D>;
  auto* queries = dynamic_shared<float>();
  float *keys = queries + kTile * (D + 1), *values = keys + kTile * (D + 1), *p = values + kTile * (D + 1);
  int* first_key = reinterpret_cast<int*>(p + kTile * (kTile + 1));  // of the tile's queries
  const AttentionSizes& s = a.size;
  const int first = (static_cast<int>(gridDim.x) - 1 - static_cast<int>(blockIdx.x)) * kTile;  // the longest first
  const int head = static_cast<int>(blockIdx.y), batch = static_cast<int>(blockIdx.z), kv_head = head / s.group();
  const int row = static_cast<int>(threadIdx.x) / kShare, share = static_cast<int>(threadIdx.x) % kShare;
  const int query = first + row;
  const std::int64_t sample_row = std::int64_t{batch} * s.sequence;
  const std::uint64_t sample_key = s.dropout.on() ? s.dropout.key_of(batch) : 0;
  load_tile<D>(queries, a.query, sample_row, first, s.sequence, std::int64_t{head} * s.head_width, s.head_width);
  const MaskedKeys<Masked> visible(a.positions, sample_row, s);
  if (Masked && threadIdx.x < kTile) first_key[threadIdx.x] = visible.first_key(first + static_cast<int>(threadIdx.x));

  float top = -3.0e38f, sum = 0, out[D / kShare] = {};
  // Tiles of keys are cut without regard to documents and windows; those that no query here sees are left out.
  for (int key_first = visible.first_key(first) / kTile * kTile; key_first < first + kTile && key_first < s.sequence;
       key_first += kTile) {
    __syncthreads();  // the last tile is no longer needed
    load_tile<D>(keys, a.key, sample_row, key_first, s.sequence, std::int64_t{kv_head} * s.head_width, s.head_width);
    load_tile<D>(values, a.value, sample_row, key_first, s.sequence, std::int64_t{kv_head} * s.head_width,
                 s.head_width);
    __syncthreads();
    float score[kTile / kShare], tile_top = -3.0e38f;
#pragma unroll
    for (int j = 0; j < kTile / kShare; ++j) {
      const int key = share + kShare * j;
      const bool is_after = !Masked || key_first + key >= first_key[row];
      const bool is_seen = is_after && key_first + key <= query && query < s.sequence;
      score[j] = is_seen ? s.scale * dot<D>(queries + row * (D + 1), keys + key * (D + 1)) : -HUGE_VALF;
      tile_top = larger(tile_top, score[j]);
    }
    const float new_top = larger(top, share_maximum<D>(tile_top)), shrink = expf(top - new_top);
    float tile_sum = 0;
#pragma unroll
    for (int j = 0; j < kTile / kShare; ++j) {
      const int key = share + kShare * j;
      float e = expf(score[j] - new_top);
      tile_sum += e;
      if (s.dropout.on() && e != 0) e *= s.mask(sample_key, head, query, key_first + key);
      p[row * (kTile + 1) + key] = e;
    }
    sum = sum * shrink + share_sum<D>(tile_sum);
    top = new_top;
    __syncwarp();  // a row's threads are in one warp
#pragma unroll
    for (int j = 0; j < D / kShare; ++j) {
      float add = 0;
      for (int key = 0; key < kTile; ++key) {
        add = fmaf(p[row * (kTile + 1) + key], values[key * (D + 1) + share + kShare * j], add);
      }
      out[j] = fmaf(out[j], shrink, add);
    }
    __syncwarp();
  }
  if (query >= s.sequence) return;
#pragma unroll
  for (int j = 0; j < D / kShare; ++j) {
    const int column = share + kShare * j;
    if (column < s.head_width) {
      *a.output.at(sample_row + query, std::int64_t{head} * s.head_width + column) = from_float<T>(out[j] / sum);
    }
  }
  if (share == 0) a.log_sum_exp[s.statistic(batch, head, query)] = top + logf(sum);
}

template <int D>
constexpr std::size_t backward_shared_bytes() {
  constexpr std::size_t tile = kTileOf<D>;
  return sizeof(float) * (4 * tile * (D + 1) + 2 * tile * (tile + 1) + 2 * tile) + sizeof(int) * tile;
}
static_assert(backward_shared_bytes<128>() <= kSharedBytesEverywhere &&
              backward_shared_bytes<256>() <= kSharedBytesEverywhere);

/// KeysStay: blockIdx.y is a key/value head, and its query heads pass one after the other. Otherwise a query head. With
/// masks one block per multiprocessor must do, because with fewer registers a thread would spill.
template <class T, int D, bool KeysStay, bool Masked>
__global__ void __launch_bounds__(kThreads, Masked ? 1 : 0) backward_kernel(const AttentionBackwardRows<T> a) {
  constexpr int kTile = kTileOf<D>, kShare = kShareOf<D>;
  auto* x = dynamic_shared<float>();  // stay: key, value; or query, d output
  float *y = x + kTile * (D + 1), *u = y + kTile * (D + 1), *w = u + kTile * (D + 1);
  float *p = w + kTile * (D + 1), *ds = p + kTile * (kTile + 1);
  float *log_sum_exp = ds + kTile * (kTile + 1), *delta = log_sum_exp + kTile;  // of the tile's queries
  int* first_key = reinterpret_cast<int*>(delta + kTile);                       // likewise
  const AttentionSizes& s = a.size;
  const int first = static_cast<int>(KeysStay ? blockIdx.x : gridDim.x - 1 - blockIdx.x) * kTile;  // the longest first
  const int batch = static_cast<int>(blockIdx.z);
  const int kv_head = static_cast<int>(blockIdx.y) / (KeysStay ? 1 : s.group());
  const int row = static_cast<int>(threadIdx.x) / kShare, share = static_cast<int>(threadIdx.x) % kShare;
  const int mine = first + row;
  const std::int64_t sample_row = std::int64_t{batch} * s.sequence;
  const std::int64_t kv_column = std::int64_t{kv_head} * s.head_width;
  const std::uint64_t sample_key = s.dropout.on() ? s.dropout.key_of(batch) : 0;
  const MaskedKeys<Masked> visible(a.positions, sample_row, s);
  const auto load_statistics = [&](int head, int from) {
    if (threadIdx.x >= kTile) return;
    const int query = from + static_cast<int>(threadIdx.x);
    const bool inside = query < s.sequence;
    log_sum_exp[threadIdx.x] = inside ? a.log_sum_exp[s.statistic(batch, head, query)] : 0.0f;
    delta[threadIdx.x] = inside ? a.delta[s.statistic(batch, head, query)] : 0.0f;
    if constexpr (Masked) first_key[threadIdx.x] = visible.first_key(query);
  };
  float x_gradient[D / kShare] = {}, y_gradient[D / kShare] = {};
  const int head_begin = KeysStay ? kv_head * s.group() : static_cast<int>(blockIdx.y);
  const int head_end = KeysStay ? head_begin + s.group() : head_begin + 1;
  if constexpr (KeysStay) {
    load_tile<D>(x, a.key, sample_row, first, s.sequence, kv_column, s.head_width);
    load_tile<D>(y, a.value, sample_row, first, s.sequence, kv_column, s.head_width);
  }
  for (int head = head_begin; head < head_end; ++head) {
    const std::int64_t head_column = std::int64_t{head} * s.head_width;
    if constexpr (!KeysStay) {
      load_tile<D>(x, a.query, sample_row, first, s.sequence, head_column, s.head_width);
      load_tile<D>(y, a.output_gradient, sample_row, first, s.sequence, head_column, s.head_width);
      load_statistics(head, first);
    }
    const int last = first + kTile < s.sequence ? first + kTile : s.sequence;
    const int begin = KeysStay ? first : visible.first_key(first) / kTile * kTile;
    const int end = KeysStay ? visible.end_of_queries(last - 1) : last;
    for (int other_first = begin; other_first < end; other_first += kTile) {
      __syncthreads();  // the last tile is no longer needed
      if constexpr (KeysStay) {
        load_tile<D>(u, a.query, sample_row, other_first, s.sequence, head_column, s.head_width);
        load_tile<D>(w, a.output_gradient, sample_row, other_first, s.sequence, head_column, s.head_width);
        load_statistics(head, other_first);
      } else {
        load_tile<D>(u, a.key, sample_row, other_first, s.sequence, kv_column, s.head_width);
        load_tile<D>(w, a.value, sample_row, other_first, s.sequence, kv_column, s.head_width);
      }
      __syncthreads();
#pragma unroll
      for (int j = 0; j < kTile / kShare; ++j) {
        const int other = share + kShare * j;
        const int query = KeysStay ? other_first + other : mine, key = KeysStay ? mine : other_first + other;
        const int of_query = KeysStay ? other : row;
        float probability = 0, gradient = 0;
        if (key <= query && query < s.sequence && (!Masked || key >= first_key[of_query])) {
          const float score = s.scale * dot<D>(x + row * (D + 1), u + other * (D + 1));
          probability = expf(score - log_sum_exp[of_query]);
          gradient = dot<D>(y + row * (D + 1), w + other * (D + 1));
          const float mask = s.dropout.on() ? s.mask(sample_key, head, query, key) : 1.0f;
          gradient = probability * (gradient * mask - delta[of_query]) * s.scale;
          probability *= mask;
        }
        p[row * (kTile + 1) + other] = probability;
        ds[row * (kTile + 1) + other] = gradient;
      }
      __syncwarp();  // a row's threads are in one warp
#pragma unroll
      for (int j = 0; j < D / kShare; ++j) {
        const int column = share + kShare * j;
        for (int other = 0; other < kTile; ++other) {
          x_gradient[j] = fmaf(ds[row * (kTile + 1) + other], u[other * (D + 1) + column], x_gradient[j]);
          if constexpr (KeysStay) {
            y_gradient[j] = fmaf(p[row * (kTile + 1) + other], w[other * (D + 1) + column], y_gradient[j]);
          }
        }
      }
    }
  }
  if (mine >= s.sequence) return;
#pragma unroll
  for (int j = 0; j < D / kShare; ++j) {
    const int column = share + kShare * j;
    if (column >= s.head_width) continue;
    if constexpr (KeysStay) {
      *a.key_gradient.at(sample_row + mine, kv_column + column) = from_float<T>(x_gradient[j]);
      *a.value_gradient.at(sample_row + mine, kv_column + column) = from_float<T>(y_gradient[j]);
    } else {
      *a.query_gradient.at(sample_row + mine, std::int64_t{head_begin} * s.head_width + column) =
          from_float<T>(x_gradient[j]);
    }
  }
}

template <class T, int D, bool Masked>
void launch_roles(cudaStream_t stream, const AttentionBackward& a, const float* delta) {
  const AttentionShape& s = a.shape;
  const AttentionBackwardRows<T> rows = rows_of<T>(a, delta);
  launch(stream, blocks_for(s.sequence, kTileOf<D>, s.kv_heads, s.batch), dim3(kThreads), backward_shared_bytes<D>(),
         backward_kernel<T, D, true, Masked>, rows);
  launch(stream, blocks_for(s.sequence, kTileOf<D>, s.heads, s.batch), dim3(kThreads), backward_shared_bytes<D>(),
         backward_kernel<T, D, false, Masked>, rows);
}

template <class F>
void with_width(std::int64_t width, F f) {
  if (width <= 64) return f.template operator()<64>();
  if (width <= 128) return f.template operator()<128>();
  f.template operator()<256>();
}

}  // namespace

void attention_forward_plain(cudaStream_t stream, const AttentionForward& a) {
  with_float_type(a.query.dtype, [&]<class T>() {
    with_width(a.shape.head_width, [&]<int D>() {
      const dim3 grid = blocks_for(a.shape.sequence, kTileOf<D>, a.shape.heads, a.shape.batch);
      const auto kernel = is_masked(a) ? forward_kernel<T, D, true> : forward_kernel<T, D, false>;
      launch(stream, grid, dim3(kThreads), forward_shared_bytes<D>(), kernel, rows_of<T>(a));
    });
  });
}

void attention_backward_plain(cudaStream_t stream, const AttentionBackward& a, const float* delta) {
  with_float_type(a.query.dtype, [&]<class T>() {
    with_width(a.shape.head_width, [&]<int D>() {
      is_masked(a) ? launch_roles<T, D, true>(stream, a, delta) : launch_roles<T, D, false>(stream, a, delta);
    });
  });
}

}  // namespace tessera
