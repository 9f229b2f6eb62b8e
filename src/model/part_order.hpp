#pragma once
// The order of Part::tensors (and of PartBuffers::parameters, gradients) and of Part::saved, for every kind of
// architecture. parts.cpp declares in this order; the decoder finds things by it. -1: this architecture has no such
// tensor or value.

#include <cstdint>

#include "tessera/kernels/arguments.hpp"
#include "tessera/model/architecture.hpp"
#include "tessera/model/parts.hpp"

namespace tessera {

/// A linear's parameters.
struct LinearTensors {
  int weight = -1, bias = -1;
};

struct NormTensors {
  int gain = -1, bias = -1;
};

/// Hands out numbers in order.
class PartOrder {
 public:
  explicit PartOrder(const Architecture& a) : a_(a) {}
  int next() { return count_++; }
  int next_if(bool there) { return there ? count_++ : -1; }
  LinearTensors linear(bool with_bias) {
    LinearTensors l;
    l.weight = next();
    l.bias = next_if(with_bias);
    return l;
  }
  NormTensors norm() {
    NormTensors n;
    n.gain = next();
    n.bias = next_if(a_.subtracts_mean());
    return n;
  }

 private:
  const Architecture& a_;
  int count_ = 0;
};

struct EmbeddingTensors {
  explicit EmbeddingTensors(const Architecture& a) {
    PartOrder order(a);
    token_table = order.next();
    position_table = order.next_if(a.positions == PositionKind::learned);
  }
  int token_table, position_table;
};

/// A linear that makes columns [column, column + width) of a row of queries, keys and values.
struct QkvProjection {
  LinearTensors tensors;
  std::int64_t column = 0, width = 0;
};

struct AttentionTensors {
  explicit AttentionTensors(const Architecture& a) {
    PartOrder order(a);
    norm = order.norm();
    const std::int64_t query = a.heads * a.head_width(), key = a.kv_heads * a.head_width();
    const auto project = [&](std::int64_t column, std::int64_t width) {
      qkv[projections++] = {order.linear(a.qkv_bias), column, width};
    };
    if (a.fused_qkv()) {
      project(0, query + 2 * key);
    } else {
      project(0, query);
      project(query, key);
      project(query + key, key);
    }
    output = order.linear(a.linear_bias);
  }
  NormTensors norm;
  QkvProjection qkv[3];
  int projections = 0;  ///< how many of qkv there are
  LinearTensors output;
};

/// SwiGLU has gate and up; GELU only up.
struct MlpTensors {
  explicit MlpTensors(const Architecture& a) {
    PartOrder order(a);
    norm = order.norm();
    if (a.mlp == MlpKind::swiglu) gate = order.linear(a.linear_bias);
    up = order.linear(a.linear_bias);
    down = order.linear(a.linear_bias);
  }
  NormTensors norm;
  LinearTensors gate, up, down;
};

struct HeadTensors {
  explicit HeadTensors(const Architecture& a) {
    PartOrder order(a);
    norm = order.norm();
    table = order.next();
  }
  NormTensors norm;
  int table;
};

/// Statistics of the norm that a half of a block starts with: fp32 [tokens] each.
struct NormSaved {
  int mean = -1, reciprocal_deviation = -1;
};

/// Embedding and head save nothing.
struct AttentionSaved {
  explicit AttentionSaved(const Architecture& a) {
    PartOrder order(a);
    norm = {order.next_if(a.subtracts_mean()), order.next()};
    qkv = order.next();
    output = order.next();
    log_sum_exp = order.next();
  }
  NormSaved norm;
  int qkv;     ///< [tokens, (heads + 2 kv_heads) * head_width]: queries, keys, values side by side, rotated (rotary)
  int output;  ///< [tokens, width]: attention's output, before its projection
  int log_sum_exp;  ///< fp32 [batch, heads, sequence]
};

struct MlpSaved {
  explicit MlpSaved(const ModelParts& model) {
    const Architecture& a = model.architecture;
    PartOrder order(a);
    norm = {order.next_if(a.subtracts_mean()), order.next()};
    gate = order.next_if(a.mlp == MlpKind::swiglu);
    up = order.next();
    activated = order.next_if(model.keeps_activated);
  }
  NormSaved norm;
  int gate;       ///< [tokens, ffn_width]
  int up;         ///< [tokens, ffn_width]; with GELU: its input
  int activated;  ///< [tokens, ffn_width]: h, the down projection's input; -1: backward makes it again
};

/// Returns the layout of every linear's weight.
inline WeightLayout weight_layout(const Architecture& a) {
  return a.family == Family::gpt2 ? WeightLayout::in_out : WeightLayout::out_in;
}

}  // namespace tessera
