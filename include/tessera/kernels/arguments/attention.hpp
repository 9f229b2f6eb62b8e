#pragma once
// Attention, and the rotation of queries and keys.

#include <cstdint>

#include "tessera/kernels/arguments/dropout.hpp"
#include "tessera/kernels/views.hpp"

namespace tessera {

/// Causal attention of `batch` sequences; query head h reads key/value head h / (heads / kv_heads). Query i sees keys
/// i - window + 1 to i (Beltagy et al. 2020), or all up to i without a window.
struct AttentionShape {
  std::int64_t batch = 0, sequence = 0, heads = 0, kv_heads = 0, head_width = 0;
  std::int64_t window = 0;     ///< keys that a query sees, its own among them; 0: all
  std::int64_t documents = 0;  ///< of all sequences together, at most, where `borders` says where they begin

  /// Whether some query does not see all keys before it. Not for AttentionCached, whose earlier keys are in the cache.
  bool has_window() const { return window > 0 && window < sequence; }
  auto operator<=>(const AttentionShape&) const = default;
};

/// output = dropout(softmax(q k^T / sqrt(head_width), causal)) v, without a stored [sequence, sequence] matrix. Online
/// softmax over tiles of keys (Milakov & Gimelshein 2018; Dao et al. 2022).
struct AttentionForward {
  AttentionShape shape;
  ConstView query;       ///< [tokens, heads * head_width]
  ConstView key, value;  ///< [tokens, kv_heads * head_width]
  View output;           ///< [tokens, heads * head_width]
  /// [batch, heads, sequence]: of the scaled scores. Where cuDNN keeps documents apart, it is [batch, sequence, heads].
  float* log_sum_exp = nullptr;
  /// [batch, sequence]: a row's number in its document, whose keys alone it sees, as far as its window goes. Null: one
  /// document per sequence.
  const std::int32_t* positions = nullptr;
  Dropout dropout;
  /// [shape.documents + 1]: the first token of each document among those of all sequences, then batch * sequence until
  /// the end. It says the same as positions. Null: shape.documents is 0.
  const std::int32_t* borders = nullptr;
};

/// The same for the next tokens of sequences whose earlier keys and values lie in a cache, which it extends. Sequence b
/// brings counts[b] tokens, 0 to shape.sequence; the first is at position positions[b, 0]. Their keys and values are
/// put into the cache. Then the query at position p reads the cache's positions up to p that its window holds. Rows of
/// `output` beyond counts[b] become 0. A sequence's slots are a ring: position p lies in slot p % limit. Keys are read
/// in the order of their positions, so that the bits do not depend on the limit. On CPUs a query's tile of 64 positions
/// has the same bits as in AttentionForward where the call has the whole tile. On GPUs a query's bits do not depend on
/// the other rows of the call.
struct AttentionCached {
  AttentionShape shape;  ///< `sequence`: rows that each sequence has in this call
  /// Slots of each sequence in the cache: as many as all its positions or, with a window, at least window +
  /// shape.sequence - 1, so that the call's last token leaves what its first one sees.
  std::int64_t limit = 0;
  const std::int32_t* positions = nullptr;  ///< [batch, sequence]; the first of each sequence counts
  const std::int32_t* counts = nullptr;     ///< [batch]
  ConstView query;                          ///< [batch * sequence, heads * head_width]
  ConstView key, value;                     ///< [batch * sequence, kv_heads * head_width]
  View key_cache, value_cache;              ///< [batch * limit, kv_heads * head_width] in key's dtype
  View output;                              ///< [batch * sequence, heads * head_width]

  bool goes_round() const { return shape.window > 0 && limit >= shape.window + shape.sequence - 1; }
};

struct AttentionBackward {
  AttentionShape shape;
  ConstView query, key, value, output;  ///< forward's, in one dtype
  const float* log_sum_exp = nullptr;
  const std::int32_t* positions = nullptr;            ///< forward's
  ConstView output_gradient;                          ///< [tokens, heads * head_width]
  View query_gradient, key_gradient, value_gradient;  ///< shaped and typed as query, key, value; stored
  Dropout dropout;
  void* scratch = nullptr;                ///< KernelNeeds::attention_backward
  const std::int32_t* borders = nullptr;  ///< forward's
};

/// Rotary positions (Su et al. 2021) in the half-split form of Llama and Qwen. With i < head_width / 2 and position p
/// = positions[row], the angle has (cos, sin) = table[p, i]. It rotates the pair (x[i], x[i + head_width / 2]) of
/// each head. `inverse` rotates back, which is the backward of a rotation. May be in place.
struct Rotate {
  std::int64_t batch = 0, sequence = 0, heads = 0, head_width = 0;
  const float* table = nullptr;             ///< [> every position, head_width / 2, 2]: cosine, sine
  const std::int32_t* positions = nullptr;  ///< [batch, sequence]; null: row mod sequence
  bool inverse = false;
  ConstView input;  ///< [batch * sequence, heads * head_width]
  View output;      ///< shaped and typed as input
};

}  // namespace tessera
