// The MLP half of a block:  n = norm(x);  u = n Wup + b;  y = x + dropout(gelu(u) Wdown + b')

#include "model/decoder_parts.hpp"
#include "model/part_scratch.hpp"

namespace tessera {

namespace {

/// u, and gelu(u) unless nobody goes on to the output.
void project_up(const PartCall& call, const MlpForwardScratch& s) {
  const std::int64_t width = call.architecture().width, ffn = call.architecture().ffn_width;
  LinearForward l;
  l.tokens = call.model.tokens(), l.in = width, l.out = ffn;
  l.input = call.read(s.normalized, width);
  l.weight = call.parameter(MlpTensors::up_weight, ffn);
  l.bias = call.parameter(MlpTensors::up_bias, ffn);
  l.output = call.write(call.saved(MlpSaved::before_gelu), ffn);
  if (call.buffers.output != nullptr) l.activated = call.write(s.activated, ffn_stride(call.architecture()));
  call.kernels.linear_forward(call.stream, l);
}

void project_down(const PartCall& call, const MlpForwardScratch& s) {
  const std::int64_t width = call.architecture().width, ffn = call.architecture().ffn_width;
  LinearForward l;
  l.tokens = call.model.tokens(), l.in = ffn, l.out = width;
  l.input = call.read(s.activated, ffn_stride(call.architecture()));
  l.weight = call.parameter(MlpTensors::down_weight, width);
  l.bias = call.parameter(MlpTensors::down_bias, width);
  l.residual = call.read(call.buffers.input, width);
  l.output = call.write(call.buffers.output, width);
  l.dropout = call.dropout(DropoutSite::mlp_residual);
  call.kernels.linear_forward(call.stream, l);
}

/// Makes gelu(u) again for the weight's gradient; d u comes through the GELU with the product.
void project_down_backward(const PartCall& call, const MlpBackwardScratch& s) {
  const std::int64_t width = call.architecture().width, ffn = call.architecture().ffn_width;
  const ConstView before = call.read(call.saved(MlpSaved::before_gelu), ffn);
  call.kernels.gelu(call.stream, before, call.write(s.activated, ffn_stride(call.architecture())), call.model.tokens(),
                    ffn);
  LinearBackward l;
  l.tokens = call.model.tokens(), l.in = ffn, l.out = width;
  l.input = call.read(s.activated, ffn_stride(call.architecture()));
  l.weight = call.parameter(MlpTensors::down_weight, width);
  l.output_gradient = branch_gradient(call, DropoutSite::mlp_residual, s.masked_gradient);
  l.input_gradient = call.write(s.ffn_gradient, ffn_stride(call.architecture()));
  l.before_gelu = before;
  l.weight_gradient = call.gradient(MlpTensors::down_weight, width);
  l.bias_gradient = call.gradient(MlpTensors::down_bias, width);
  call.kernels.linear_backward(call.stream, l);
}

void project_up_backward(const PartCall& call, const MlpBackwardScratch& s) {
  const std::int64_t width = call.architecture().width, ffn = call.architecture().ffn_width;
  LinearBackward l;
  l.tokens = call.model.tokens(), l.in = width, l.out = ffn;
  l.input = call.read(s.normalized, width);
  l.weight = call.parameter(MlpTensors::up_weight, ffn);
  l.output_gradient = call.read(s.ffn_gradient, ffn_stride(call.architecture()));
  l.input_gradient = call.write(s.width_gradient, width);
  l.weight_gradient = call.gradient(MlpTensors::up_weight, ffn);
  l.bias_gradient = call.gradient(MlpTensors::up_bias, ffn);
  call.kernels.linear_backward(call.stream, l);
}

}  // namespace

void mlp_forward_part(const PartCall& call) {
  const MlpForwardScratch s = mlp_forward_scratch(call.model, call.buffers.scratch);
  normalize_input(call, s.normalized, false);
  project_up(call, s);
  if (call.buffers.output != nullptr) project_down(call, s);
}

void mlp_backward_part(const PartCall& call) {
  const MlpBackwardScratch s = mlp_backward_scratch(call.model, call.buffers.scratch);
  project_down_backward(call, s);
  normalize_input(call, s.normalized, true);
  project_up_backward(call, s);
  normalize_input_backward(call, s.width_gradient, s.norm);
}

}  // namespace tessera
