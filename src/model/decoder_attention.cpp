// The attention half of a block:
//   n = norm(x);  q, k, v = n Wqkv + b;  a = attention(q, k, v);  y = x + dropout(a Wo + bo)

#include "model/decoder_parts.hpp"
#include "model/part_scratch.hpp"

namespace tessera {

namespace {

/// Where queries, keys and values start in a row of qkv.
struct QkvColumns {
  explicit QkvColumns(const Architecture& a)
      : key(a.heads * a.head_width()), value((a.heads + a.kv_heads) * a.head_width()) {}
  std::int64_t key, value;
};

void project_qkv(const PartCall& call, const void* normalized) {
  const std::int64_t width = call.architecture().width, out = qkv_width(call.architecture());
  LinearForward l;
  l.tokens = call.model.tokens(), l.in = width, l.out = out;
  l.input = call.read(normalized, width);
  l.weight = call.parameter(AttentionTensors::qkv_weight, out);
  l.bias = call.parameter(AttentionTensors::qkv_bias, out);
  l.output = call.write(call.saved(AttentionSaved::qkv), out);
  call.kernels.linear_forward(call.stream, l);
}

void attend(const PartCall& call) {
  const QkvColumns columns(call.architecture());
  const ConstView qkv = call.read(call.saved(AttentionSaved::qkv), qkv_width(call.architecture()));
  AttentionForward f;
  f.shape = attention_shape(call.model);
  f.query = qkv;
  f.key = qkv.columns_from(columns.key);
  f.value = qkv.columns_from(columns.value);
  f.output = call.write(call.saved(AttentionSaved::output), call.architecture().width);
  f.log_sum_exp = call.saved_floats(AttentionSaved::log_sum_exp);
  f.dropout = call.dropout(DropoutSite::attention);
  call.kernels.attention_forward(call.stream, f);
}

void project_output(const PartCall& call) {
  const std::int64_t width = call.architecture().width;
  LinearForward l;
  l.tokens = call.model.tokens(), l.in = width, l.out = width;
  l.input = call.read(call.saved(AttentionSaved::output), width);
  l.weight = call.parameter(AttentionTensors::output_weight, width);
  l.bias = call.parameter(AttentionTensors::output_bias, width);
  l.residual = call.read(call.buffers.input, width);
  l.output = call.write(call.buffers.output, width);
  l.dropout = call.dropout(DropoutSite::attention_residual);
  call.kernels.linear_forward(call.stream, l);
}

void project_output_backward(const PartCall& call, const AttentionBackwardScratch& s) {
  const std::int64_t width = call.architecture().width;
  LinearBackward l;
  l.tokens = call.model.tokens(), l.in = width, l.out = width;
  l.input = call.read(call.saved(AttentionSaved::output), width);
  l.weight = call.parameter(AttentionTensors::output_weight, width);
  l.output_gradient = branch_gradient(call, DropoutSite::attention_residual, s.masked_gradient);
  l.input_gradient = call.write(s.width_gradient, width);
  l.weight_gradient = call.gradient(AttentionTensors::output_weight, width);
  l.bias_gradient = call.gradient(AttentionTensors::output_bias, width);
  call.kernels.linear_backward(call.stream, l);
}

void attend_backward(const PartCall& call, const AttentionBackwardScratch& s) {
  const std::int64_t width = call.architecture().width, stride = qkv_width(call.architecture());
  const QkvColumns columns(call.architecture());
  const ConstView qkv = call.read(call.saved(AttentionSaved::qkv), stride);
  const View gradient = call.write(s.qkv_gradient, stride);
  AttentionBackward b;
  b.shape = attention_shape(call.model);
  b.query = qkv, b.key = qkv.columns_from(columns.key), b.value = qkv.columns_from(columns.value);
  b.output = call.read(call.saved(AttentionSaved::output), width);
  b.log_sum_exp = call.saved_floats(AttentionSaved::log_sum_exp);
  b.output_gradient = call.read(s.width_gradient, width);
  b.query_gradient = gradient, b.key_gradient = gradient.columns_from(columns.key);
  b.value_gradient = gradient.columns_from(columns.value);
  b.dropout = call.dropout(DropoutSite::attention);
  b.scratch = s.attention;
  call.kernels.attention_backward(call.stream, b);
}

void project_qkv_backward(const PartCall& call, const AttentionBackwardScratch& s) {
  const std::int64_t width = call.architecture().width, out = qkv_width(call.architecture());
  LinearBackward l;
  l.tokens = call.model.tokens(), l.in = width, l.out = out;
  l.input = call.read(s.normalized, width);
  l.weight = call.parameter(AttentionTensors::qkv_weight, out);
  l.output_gradient = call.read(s.qkv_gradient, out);
  l.input_gradient = call.write(s.width_gradient, width);
  l.weight_gradient = call.gradient(AttentionTensors::qkv_weight, out);
  l.bias_gradient = call.gradient(AttentionTensors::qkv_bias, out);
  call.kernels.linear_backward(call.stream, l);
}

}  // namespace

void attention_forward_part(const PartCall& call) {
  normalize_input(call, call.buffers.scratch, false);
  project_qkv(call, call.buffers.scratch);
  attend(call);
  if (call.buffers.output != nullptr) project_output(call);
}

void attention_backward_part(const PartCall& call) {
  const AttentionBackwardScratch s = attention_backward_scratch(call.model, call.buffers.scratch);
  project_output_backward(call, s);
  attend_backward(call, s);
  normalize_input(call, s.normalized, true);
  project_qkv_backward(call, s);
  normalize_input_backward(call, s.width_gradient, s.norm);
}

}  // namespace tessera
