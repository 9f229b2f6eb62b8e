// Attention over a cache of keys and values, for the few new tokens of each sequence that generation brings. A block
// has one query of one head, and eight lanes have a key. 32 groups of lanes take the keys in turn, each with its own
// online softmax. Their sums are merged in order, so that a query's bits depend on its position alone.

#include "cuda/kernels/attention.hpp"
#include "cuda/kernels/attention_problem.cuh"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr int kThreads = 256, kLanes = 8, kGroups = kThreads / kLanes;

template <class T>
struct CachedRows {
  AttentionSizes size;  ///< sequence: rows of the call
  std::int64_t limit;
  bool goes_round;
  const std::int32_t *positions, *counts;
  Rows<const T> query, key, value;
  Rows<T> key_cache, value_cache, output;
  bool aligned;

  /// Returns the position of a row of sequence `batch`; -1 if it has no token. -2 if the cache has no slot for it: a
  /// kernel cannot throw, so its output becomes NaN.
  __device__ std::int64_t position(int batch, int row) const {
    if (row >= counts[batch]) return -1;
    const std::int64_t position = std::int64_t{positions[std::int64_t{batch} * size.sequence]} + row;
    return position >= 0 && (position < limit || goes_round) ? position : -2;
  }
};

/// A block per row puts its key and value into the cache.
template <class T>
__global__ void __launch_bounds__(kThreads) append_kernel(const CachedRows<T> a) {
  const int row = static_cast<int>(blockIdx.x), batch = static_cast<int>(blockIdx.y);
  const std::int64_t position = a.position(batch, row);
  if (position < 0) return;
  const std::int64_t from = std::int64_t{batch} * a.size.sequence + row,
                     to = std::int64_t{batch} * a.limit + position % a.limit;
  for (int i = static_cast<int>(threadIdx.x); i < a.size.kv_heads * a.size.head_width; i += kThreads) {
    *a.key_cache.at(to, i) = *a.key.at(from, i);
    *a.value_cache.at(to, i) = *a.value.at(from, i);
  }
}

/// D: the head's width at most; a lane has every eighth pack of it.
template <class T, int D>
__global__ void __launch_bounds__(kThreads) cached_kernel(const CachedRows<T> a) {
  constexpr int kPacks = D / (kLanes * kPack);
  __shared__ __align__(16) float out_of[kGroups][D];
  __shared__ float top_of[kGroups], sum_of[kGroups];
  const AttentionSizes& s = a.size;
  const int row = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const int batch = static_cast<int>(blockIdx.z);
  const int lane = static_cast<int>(threadIdx.x) % kLanes, group = static_cast<int>(threadIdx.x) / kLanes;
  const std::int64_t query_row = std::int64_t{batch} * s.sequence + row, first_key = std::int64_t{batch} * a.limit;
  const std::int64_t query_column = std::int64_t{head} * s.head_width;
  const std::int64_t key_column = std::int64_t{head / s.group()} * s.head_width;
  const std::int64_t position = a.position(batch, row);
  if (position < 0) {  // the whole block
    const float nothing = position == -1 ? 0.0f : __uint_as_float(0x7fc00000u);
    for (int i = static_cast<int>(threadIdx.x); i < s.head_width; i += kThreads)
      *a.output.at(query_row, query_column + i) = from_float<T>(nothing);
    return;
  }
  const auto column = [&](int pack) { return (pack * kLanes + lane) * kPack; };
  StoredPack<T> query[kPacks];
  float out[kPacks][kPack] = {}, top = -3.0e38f, sum = 0;
#pragma unroll
  for (int p = 0; p < kPacks; ++p)
    query[p] = load_pack(a.query.at(query_row, query_column + column(p)), s.head_width - column(p), a.aligned);
  const std::int64_t first = s.window > 0 && position >= s.window ? position - s.window + 1 : 0;
  // All groups of a warp go on until the last one is done: they share its shuffles.
  for (std::int64_t begin = first / kGroups * kGroups, slot = begin + group; begin <= position;
       begin += kGroups, slot += kGroups) {
    if (slot >= a.limit) slot %= a.limit;
    const std::int64_t key = begin + group;
    const bool visible = key >= first && key <= position;
    StoredPack<T> keys[kPacks], values[kPacks];
    float score = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const std::int64_t left = visible ? s.head_width - column(p) : 0;
      keys[p] = load_pack(a.key_cache.at(first_key + slot, key_column + column(p)), left, a.aligned);
      values[p] = load_pack(a.value_cache.at(first_key + slot, key_column + column(p)), left, a.aligned);
    }
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) score = fmaf(query[p][i], keys[p][i], score);
    }
    for (int half = kLanes / 2; half >= 1; half /= 2) score += __shfl_xor_sync(kAllLanes, score, half);
    if (!visible) continue;
    score *= s.scale;
    const float new_top = larger(top, score), shrink = expf(top - new_top), e = expf(score - new_top);
    top = new_top;
    sum = fmaf(sum, shrink, e);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) out[p][i] = fmaf(out[p][i], shrink, e * values[p][i]);
    }
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) out_of[group][column(p) + i] = out[p][i];
  }
  if (lane == 0) top_of[group] = top, sum_of[group] = sum;
  __syncthreads();
  const int mine = static_cast<int>(threadIdx.x);
  if (mine >= s.head_width) return;
  float highest = top_of[0], all = 0, value = 0;
  for (int g = 1; g < kGroups; ++g) highest = larger(highest, top_of[g]);
  for (int g = 0; g < kGroups; ++g) {  // a group without keys has the factor 0
    const float factor = expf(top_of[g] - highest);
    all = fmaf(sum_of[g], factor, all);
    value = fmaf(out_of[g][mine], factor, value);
  }
  *a.output.at(query_row, query_column + mine) = from_float<T>(value / all);
}

template <class T>
CachedRows<T> rows_of(const AttentionCached& a) {
  const bool aligned = heads_aligned(a.shape, a.query.dtype) && is_aligned(a.query) && is_aligned(a.key_cache) &&
                       is_aligned(a.value_cache);
  return {AttentionSizes(a.shape, {}),
          a.limit,
          a.goes_round(),
          a.positions,
          a.counts,
          rows_of<T>(a.query),
          rows_of<T>(a.key),
          rows_of<T>(a.value),
          rows_of<T>(a.key_cache),
          rows_of<T>(a.value_cache),
          rows_of<T>(a.output),
          aligned};
}

}  // namespace

void attention_over_cache(cudaStream_t stream, const AttentionCached& a) {
  const AttentionShape& s = a.shape;
  with_float_type(a.query.dtype, [&]<class T>() {
    const CachedRows<T> rows = rows_of<T>(a);
    launch(stream, blocks_for(s.sequence, 1, s.batch), dim3(kThreads), 0, append_kernel<T>, rows);
    const dim3 grid = blocks_for(s.sequence, 1, s.heads, s.batch);
    const auto kernel = s.head_width <= 64    ? cached_kernel<T, 64>
                        : s.head_width <= 128 ? cached_kernel<T, 128>
                                              : cached_kernel<T, 256>;
    launch(stream, grid, dim3(kThreads), 0, kernel, rows);
  });
}

}  // namespace tessera
