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
  Role weight, norm_gain;  ///< the norm of each head of it: a part may have no such gain
  std::int64_t column, width;
};

/// The common arguments of one direction's functions.
struct AttentionCall : PartCall {
  std::int64_t width() const { return architecture().width; }
  std::int64_t query_width() const { return architecture().query_width(); }
  /// All three: their weights are one tensor, or one behind the other.
  Projection all() const {
    const Role weight = has(Role::qkv_weight) ? Role::qkv_weight : Role::query_weight;
    return {weight, weight, 0, architecture().qkv_width()};
  }
  Projection query() const { return {Role::query_weight, Role::query_norm_gain, 0, query_width()}; }
  Projection key() const { return {Role::key_weight, Role::key_norm_gain, query_width(), architecture().key_width()}; }
  Projection value() const {
    return {Role::value_weight, Role::value_weight, query_width() + architecture().key_width(),
            architecture().key_width()};
  }
  bool has_norm(const Projection& p) const { return p.norm_gain != p.weight && has(p.norm_gain); }
  /// Returns the output of a projection, in memory for all of them (Architecture::query_stride).
  View view(void* memory, const Projection& p) const {
    if (architecture().has_one_qkv()) return write(memory, architecture().qkv_width()).columns_from(p.column);
    return {write(memory, 1).at(model.tokens() * p.column), model.compute, p.width};
  }
  View saved_view(const Projection& p) const { return view(saved(SavedRole::qkv), p); }
  void* heads_output() const { return saved(SavedRole::attention_output); }

  /// Calls `function` with each linear's projection.
  template <class Function>
  void each_linear(const Function& function) const {
    if (architecture().has_one_qkv()) return function(all());
    for (const Projection& projection : {query(), key(), value()}) function(projection);
  }
  /// Calls it with those whose heads have norms.
  template <class Function>
  void each_norm(const Function& function) const {
    for (const Projection& projection : {query(), key()}) {
      if (has_norm(projection)) function(projection);
    }
  }
};

/// Rotates `heads` heads of each row in place.
void rotate(const AttentionCall& call, const View& rows, std::int64_t heads, bool inverse) {
  RotaryArguments r;
  r.batch = call.model.batch, r.sequence = call.model.sequence;
  r.heads = heads, r.head_width = call.architecture().head_width();
  r.table = static_cast<const float*>(call.buffers.constants[0]);
  r.positions = call.buffers.positions;
  r.inverse = inverse;
  r.input = rows, r.output = rows;
  call.kernels.rotary(call.stream, r);
}

/// Rotates queries and keys in memory for all projections; where they lie side by side, at once.
void apply_rotary(const AttentionCall& call, void* memory, bool inverse) {
  const Architecture& a = call.architecture();
  if (a.positions != PositionKind::rotary) return;
  const View query = call.view(memory, call.query());
  if (a.has_one_qkv()) return rotate(call, query, a.heads + a.kv_heads, inverse);
  rotate(call, query, a.heads, inverse);
  rotate(call, call.view(memory, call.key()), a.kv_heads, inverse);
}

/// The norms of a projection's heads, each a row: shape, statistics and gain of forward or backward.
template <class Arguments>
Arguments head_norm(const AttentionCall& call, const Projection& p) {
  Arguments n;
  n.width = call.architecture().head_width(), n.tokens = call.model.tokens() * p.width / n.width;
  n.subtract_mean = false;
  n.input = call.read(call.view(call.saved(SavedRole::projected), p).data, n.width);
  n.gain = call.parameter(p.norm_gain, n.width);
  n.reciprocal_deviation = call.saved_floats(SavedRole::head_deviation) + call.model.tokens() * p.column / n.width;
  return n;
}

void project_qkv(const AttentionCall& call, const void* normalized) {
  call.each_linear([&](const Projection& projection) {
    LinearForward l = linear_forward(call, projection.weight, call.width(), projection.width);
    l.input = call.read(normalized, call.width());
    l.output = call.view(call.saved(call.has_norm(projection) ? SavedRole::projected : SavedRole::qkv), projection);
    call.kernels.linear_forward(call.stream, l);
  });
  call.each_norm([&](const Projection& projection) {
    auto n = head_norm<NormForward>(call, projection);
    n.epsilon = static_cast<float>(call.architecture().norm_epsilon);
    n.output = call.write(call.saved_view(projection).data, n.width);
    call.kernels.norm_forward(call.stream, n);
  });
  apply_rotary(call, call.saved(SavedRole::qkv), false);
}

/// The shape, positions, queries, keys and values of forward or backward.
template <class Arguments>
Arguments attention_of(const AttentionCall& call) {
  Arguments a;
  a.shape = attention_shape(call.model);
  a.query = call.saved_view(call.query()), a.key = call.saved_view(call.key());
  a.value = call.saved_view(call.value());
  a.positions = call.buffers.positions;
  return a;
}

/// Attends to the cache, which takes up the new keys and values.
void cached_attention(const AttentionCall& call) {
  const View keys = call.write(call.buffers.cache, call.architecture().key_width());
  auto c = attention_of<AttentionCached>(call);
  c.limit = call.model.cache, c.counts = call.buffers.counts;
  c.key_cache = keys, c.value_cache = keys.rows_from(call.model.batch * call.model.cache);
  c.output = call.write(call.heads_output(), call.query_width());
  call.kernels.attention_cached(call.stream, c);
}

void attention(const AttentionCall& call) {
  if (call.model.generates()) return cached_attention(call);
  auto f = attention_of<AttentionForward>(call);
  f.output = call.write(call.heads_output(), call.query_width());
  f.log_sum_exp = call.saved_floats(SavedRole::log_sum_exp);
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
  const auto gradient = [&](const Projection& projection) { return call.view(s.qkv_gradient, projection); };
  auto b = attention_of<AttentionBackward>(call);
  b.output = call.read(call.heads_output(), call.query_width());
  b.log_sum_exp = call.saved_floats(SavedRole::log_sum_exp);
  b.output_gradient = call.read(s.width_gradient, call.query_width());
  b.query_gradient = gradient(call.query()), b.key_gradient = gradient(call.key());
  b.value_gradient = gradient(call.value());
  b.dropout = call.dropout(DropoutSite::attention);
  b.scratch = s.attention;
  call.kernels.attention_backward(call.stream, b);
  apply_rotary(call, s.qkv_gradient, true);
  call.each_norm([&](const Projection& projection) {
    auto n = head_norm<NormBackward>(call, projection);
    n.input_gradient = call.write(gradient(projection).data, n.width);
    n.output_gradient = n.input_gradient;
    n.gain_gradient = call.gradient(projection.norm_gain, n.width);
    n.scratch = s.norm;
    call.kernels.norm_backward(call.stream, n);
  });
}

/// The norm's backward stands between the projections' two halves: it recomputes their input on its way.
void project_qkv_backward(const AttentionCall& call, const AttentionBackwardScratch& s) {
  const auto linear = [&](const Projection& projection) {
    LinearBackward l = linear_backward(call, projection.weight, call.width(), projection.width);
    l.output_gradient = call.view(s.qkv_gradient, projection);
    return l;
  };
  const View sum = call.write(s.width_gradient, call.width());
  bool adds = false;  // the first one writes
  call.each_linear(
      [&](const Projection& projection) { input_gradient(call, linear(projection), sum, std::exchange(adds, true)); });
  normalize_input_backward(call, Role::attention_norm_gain, s.width_gradient, s.normalized, s.norm);
  const ConstView normalized = call.read(s.normalized, call.width());
  call.each_linear([&](const Projection& projection) { weight_gradients(call, linear(projection), normalized); });
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
