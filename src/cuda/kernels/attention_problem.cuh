#pragma once
// Arguments of all attention kernels, and the addresses of a head's rows.

#include <cmath>

#include "cuda/kernels/dropout_mask.cuh"
#include "cuda/kernels/grid.hpp"
#include "cuda/kernels/packs.cuh"
#include "kernels/attention_mask.hpp"
#include "tessera/kernels/arguments/attention.hpp"
#include "tessera/kernels/arguments/dropout.hpp"

namespace tessera {

inline constexpr float kLog2e = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

struct AttentionSizes {
  int sequence, heads, kv_heads, head_width;
  int window;   ///< 0: none
  float scale;  ///< 1 / sqrt(head_width)
  DropoutSource dropout;

  AttentionSizes(const AttentionShape& s, const Dropout& d)
      : sequence(static_cast<int>(s.sequence)),
        heads(static_cast<int>(s.heads)),
        kv_heads(static_cast<int>(s.kv_heads)),
        head_width(static_cast<int>(s.head_width)),
        window(static_cast<int>(s.window)),
        scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(s.head_width)))),
        dropout(d) {}

  __device__ int group() const { return heads / kv_heads; }
  /// Returns the index of (head, query) in log_sum_exp and delta.
  __device__ std::int64_t statistic(int batch, int head, int query) const {
    return (std::int64_t{batch} * heads + head) * sequence + query;
  }
  /// Returns the mask of one probability, 0 or 1/(1-p), for the sample with this key.
  __device__ float mask(std::uint64_t sample_key, int head, int query, int key) const {
    const ProbabilityMaskPlace place = mask_place(head, query, key);
    const PhiloxBlock block = philox_block(sample_key, RandomUse::dropout, dropout.site, place.block);
    const std::uint32_t low = place.word == 0 ? block.word[0] : block.word[1];
    const std::uint32_t high = place.word == 2 ? block.word[2] : block.word[3];
    return dropout.mask_of(place.word < 2 ? low : high);
  }
  /// Returns the masks of queries `query` and + 8, keys `key` and + 8, where `query` and `key` are the first of such a
  /// pair.
  __device__ void masks(std::uint64_t sample_key, int head, int query, int key, float (&mask)[2][2]) const {
    const PhiloxBlock block =
        philox_block(sample_key, RandomUse::dropout, dropout.site, mask_place(head, query, key).block);
#pragma unroll
    for (int i = 0; i < 4; ++i) mask[i / 2][i % 2] = dropout.mask_of(block.word[i]);
  }

 private:
  __device__ ProbabilityMaskPlace mask_place(int head, int query, int key) const {
    return probability_mask_place(static_cast<std::uint64_t>(sequence), static_cast<std::uint64_t>(head),
                                  static_cast<std::uint64_t>(query), static_cast<std::uint64_t>(key));
  }
};

/// The keys that queries of one sequence see, where documents or a window hide some of those before (Masked). Queries
/// and keys count within the sequence; queries beyond it see all keys.
template <bool Masked>
class MaskedKeys {
 public:
  /// `positions` [batch, sequence] as in AttentionForward; null: one document per sequence.
  __device__ MaskedKeys(const std::int32_t* positions, std::int64_t sample_row, const AttentionSizes& s)
      : positions_(positions == nullptr ? nullptr : positions + sample_row), window_(s.window), sequence_(s.sequence) {}

  /// Returns the first key that a query sees. It never falls from query to query.
  __device__ int first_key(int query) const {
    if (!Masked || query >= sequence_) return 0;
    const int of_document = positions_ == nullptr ? 0 : query - positions_[query];
    return window_ > 0 && query - window_ + 1 > of_document ? query - window_ + 1 : of_document;
  }
  /// Returns the end of the queries that see any key up to `key`, which lies in the sequence.
  __device__ int end_of_queries(int key) const {
    if (!Masked) return sequence_;
    int low = key + 1, high = sequence_;  // query `key` sees itself
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (first_key(middle) <= key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

 private:
  const std::int32_t* positions_;
  int window_, sequence_;
};

/// Whether attention takes the instances for masks: documents or a window hide keys before a query.
template <class Arguments>
bool is_masked(const Arguments& a) {
  return a.positions != nullptr || a.shape.has_window();
}

template <class T>
struct AttentionForwardRows {
  AttentionSizes size;
  Rows<const T> query, key, value;
  Rows<T> output;
  float* log_sum_exp;
  const std::int32_t* positions;
  bool aligned;  ///< 16-byte accesses to every head's rows
};

template <class T>
struct AttentionBackwardRows {
  AttentionSizes size;
  Rows<const T> query, key, value, output_gradient;
  Rows<T> query_gradient, key_gradient, value_gradient;
  const float *log_sum_exp, *delta;
  const std::int32_t* positions;
  bool aligned;
};

inline bool heads_aligned(const AttentionShape& shape, DType dtype) {
  return shape.head_width * size_of(dtype) % 16 == 0;
}

template <class T>
AttentionForwardRows<T> rows_of(const AttentionForward& a) {
  return {AttentionSizes(a.shape, a.dropout),
          rows_of<T>(a.query),
          rows_of<T>(a.key),
          rows_of<T>(a.value),
          rows_of<T>(a.output),
          a.log_sum_exp,
          a.positions,
          heads_aligned(a.shape, a.query.dtype) && is_aligned(a.query) && is_aligned(a.key) && is_aligned(a.value) &&
              is_aligned(a.output)};
}

template <class T>
AttentionBackwardRows<T> rows_of(const AttentionBackward& a, const float* delta) {
  return {AttentionSizes(a.shape, a.dropout),
          rows_of<T>(a.query),
          rows_of<T>(a.key),
          rows_of<T>(a.value),
          rows_of<T>(a.output_gradient),
          rows_of<T>(a.query_gradient),
          rows_of<T>(a.key_gradient),
          rows_of<T>(a.value_gradient),
          a.log_sum_exp,
          delta,
          a.positions,
          heads_aligned(a.shape, a.query.dtype) && is_aligned(a.query) && is_aligned(a.key) && is_aligned(a.value) &&
              is_aligned(a.output_gradient) && is_aligned(a.query_gradient) && is_aligned(a.key_gradient) &&
              is_aligned(a.value_gradient)};
}

}  // namespace tessera
