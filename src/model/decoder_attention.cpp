// The attention half of a block:
//   n = norm(x);  q, k, v = n Wqkv + b, q and k rotated by their positions (rotary);  a = attention(q, k, v);
//   y = x + dropout(a Wo + bo)

#include <utility>

#include "model/decoder_parts.hpp"
#include "model/part_scratch.hpp"

namespace tessera {

namespace {

/// A linear that makes columns [column, column + width) of a row of queries, keys and values.
struct Projection {
  Role weight;
  std::int64_t column, width;
};

/// The common arguments of one direction's functions.
struct AttentionCall : PartCall {
  std::int64_t width() const { return architecture().width; }
  std::int64_t query_width() const { return architecture().query_width(); }
  std::int64_t value_column() const { return query_width() + architecture().key_width(); }
  View qkv() const { return write(saved(SavedRole::qkv), architecture().qkv_width()); }
  void* heads_output() const { return saved(SavedRole::attention_output); }

  /// Calls `function` with the projections that the family has: one of all three, or one each.
  template <class Function>
  void each_projection(const Function& function) const {
    const Architecture& a = architecture();
    const Projection all[] = {{Role::qkv_weight, 0, a.qkv_width()},
                              {Role::query_weight, 0, a.query_width()},
                              {Role::key_weight, query_width(), a.key_width()},
                              {Role::value_weight, value_column(), a.key_width()}};
    for (const Projection& projection : all) {
      if (has(projection.weight)) function(projection);
    }
  }
};

/// Rotates queries and keys, which lie side by side in rows of `qkv`, in place.
void apply_rotary(const AttentionCall& call, const View& qkv, bool inverse) {
  const Architecture& a = call.architecture();
  if (a.positions != PositionKind::rotary) return;
  RotaryArguments r;
  r.batch = call.model.batch, r.sequence = call.model.sequence;
  r.heads = a.heads + a.kv_heads, r.head_width = a.head_width();
  r.table = static_cast<const float*>(call.buffers.constants[0]);
  r.positions = call.buffers.positions;
  r.inverse = inverse;
  r.input = qkv, r.output = qkv;
  call.kernels.rotary(call.stream, r);
}

void project_qkv(const AttentionCall& call, const void* normalized) {
  call.each_projection([&](const Projection& projection) {
    LinearForward l = linear_forward(call, projection.weight, call.width(), projection.width);
    l.input = call.read(normalized, call.width());
    l.output = call.qkv().columns_from(projection.column);
    call.kernels.linear_forward(call.stream, l);
  });
  apply_rotary(call, call.qkv(), false);
}

/// Attends to the cache, which takes up the new keys and values.
void cached_attention(const AttentionCall& call) {
  const Architecture& a = call.architecture();
  const View qkv = call.qkv();
  const View keys = call.write(call.buffers.cache, a.key_width());
  AttentionCached c;
  c.shape = attention_shape(call.model);
  c.limit = call.model.cache;
  c.positions = call.buffers.positions, c.counts = call.buffers.counts;
  c.query = qkv, c.key = qkv.columns_from(call.query_width()), c.value = qkv.columns_from(call.value_column());
  c.key_cache = keys, c.value_cache = keys.rows_from(call.model.batch * call.model.cache);
  c.output = call.write(call.heads_output(), call.query_width());
  call.kernels.attention_cached(call.stream, c);
}

void attention(const AttentionCall& call) {
  if (call.model.generates()) return cached_attention(call);
  const View qkv = call.qkv();
  AttentionForward f;
  f.shape = attention_shape(call.model);
  f.query = qkv;
  f.key = qkv.columns_from(call.query_width());
  f.value = qkv.columns_from(call.value_column());
  f.output = call.write(call.heads_output(), call.query_width());
  f.log_sum_exp = call.saved_floats(SavedRole::log_sum_exp);
  f.positions = call.buffers.positions;
  f.dropout = call.dropout(DropoutSite::attention);
  call.kernels.attention_forward(call.stream, f);
}

void project_output(const AttentionCall& call) {
  LinearForward l = linear_forward(call, Role::output_weight, call.query_width(), call.width());
  l.input = call.read(call.heads_output(), call.query_width());
  l.residual = call.read(call.buffers.input, call.width());
  l.output = call.write(call.buffers.output, call.width());
  l.dropout = call.dropout(DropoutSite::attention_residual);
  call.kernels.linear_forward(call.stream, l);
}

void project_output_backward(const AttentionCall& call, const AttentionBackwardScratch& s) {
  LinearBackward l = linear_backward(call, Role::output_weight, call.query_width(), call.width());
  l.input = call.read(call.heads_output(), call.query_width());
  l.output_gradient = branch_gradient(call, DropoutSite::attention_residual, s.masked_gradient);
  l.output_gradient_sums = call.residual_gradient_sums();
  l.input_gradient = call.write(s.width_gradient, call.query_width());
  call.kernels.linear_backward(call.stream, l);
}

void attention_backward(const AttentionCall& call, const AttentionBackwardScratch& s) {
  const View qkv = call.qkv(), gradient = call.write(s.qkv_gradient, qkv.stride);
  AttentionBackward b;
  b.shape = attention_shape(call.model);
  b.query = qkv, b.key = qkv.columns_from(call.query_width()), b.value = qkv.columns_from(call.value_column());
  b.output = call.read(call.heads_output(), call.query_width());
  b.log_sum_exp = call.saved_floats(SavedRole::log_sum_exp);
  b.positions = call.buffers.positions;
  b.output_gradient = call.read(s.width_gradient, call.query_width());
  b.query_gradient = gradient, b.key_gradient = gradient.columns_from(call.query_width());
  b.value_gradient = gradient.columns_from(call.value_column());
  b.dropout = call.dropout(DropoutSite::attention);
  b.scratch = s.attention;
  call.kernels.attention_backward(call.stream, b);
  apply_rotary(call, gradient, true);
}

/// The norm's backward stands between the projections' two halves: it recomputes their input on its way.
void project_qkv_backward(const AttentionCall& call, const AttentionBackwardScratch& s) {
  const ConstView gradient = call.read(s.qkv_gradient, call.architecture().qkv_width());
  const auto linear = [&](const Projection& projection) {
    LinearBackward l = linear_backward(call, projection.weight, call.width(), projection.width);
    l.output_gradient = gradient.columns_from(projection.column);
    return l;
  };
  const View sum = call.write(s.width_gradient, call.width());
  bool adds = false;  // the first one writes
  call.each_projection(
      [&](const Projection& projection) { input_gradient(call, linear(projection), sum, std::exchange(adds, true)); });
  normalize_input_backward(call, Role::attention_norm_gain, s.width_gradient, s.normalized, s.norm);
  const ConstView normalized = call.read(s.normalized, call.width());
  call.each_projection([&](const Projection& projection) { weight_gradients(call, linear(projection), normalized); });
}

}  // namespace

void attention_forward_part(const PartCall& part) {
  const AttentionCall call{part};
  normalize_input(call, Role::attention_norm_gain, call.buffers.scratch);
  project_qkv(call, call.buffers.scratch);
  attention(call);
  if (call.buffers.output != nullptr) project_output(call);
}

void attention_backward_part(const PartCall& part) {
  const AttentionCall call{part};
  ScratchLayout scratch = call.scratch(call.part.backward);
  const AttentionBackwardScratch s(scratch, call.model);
  project_output_backward(call, s);
  attention_backward(call, s);
  project_qkv_backward(call, s);
}

}  // namespace tessera
