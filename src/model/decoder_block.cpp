// The common parts of a block's halves: the norm at their start, linears, and the residual path at their end.

#include "model/decoder_parts.hpp"

namespace tessera {

namespace {

/// Returns the columns of a weight as it is stored.
std::int64_t weight_columns(WeightLayout layout, std::int64_t in, std::int64_t out) {
  return layout == WeightLayout::in_out ? out : in;
}

}  // namespace

LinearForward linear_forward(const PartCall& call, const LinearTensors& tensors, std::int64_t in, std::int64_t out) {
  LinearForward l;
  l.tokens = call.model.tokens(), l.in = in, l.out = out;
  l.layout = weight_layout(call.architecture());
  l.weight = call.parameter(tensors.weight, weight_columns(l.layout, in, out));
  l.bias = call.parameter(tensors.bias, out);
  return l;
}

LinearBackward linear_backward(const PartCall& call, const LinearTensors& tensors, std::int64_t in, std::int64_t out) {
  LinearBackward l;
  l.tokens = call.model.tokens(), l.in = in, l.out = out;
  l.layout = weight_layout(call.architecture());
  l.weight = call.parameter(tensors.weight, weight_columns(l.layout, in, out));
  l.weight_gradient = call.gradient(tensors.weight, weight_columns(l.layout, in, out));
  l.bias_gradient = call.gradient(tensors.bias, out);
  return l;
}

void normalize_input(const PartCall& call, const NormTensors& tensors, const NormSaved& saved, void* normalized) {
  const std::int64_t width = call.architecture().width;
  NormForward n;
  n.tokens = call.model.tokens(), n.width = width;
  n.epsilon = static_cast<float>(call.architecture().norm_epsilon);
  n.subtract_mean = call.architecture().subtracts_mean();
  n.input = call.read(call.buffers.input, width);
  n.gain = call.parameter(tensors.gain, width);
  n.bias = call.parameter(tensors.bias, width);
  n.output = call.write(normalized, width);
  n.mean = call.saved_floats(saved.mean);
  n.reciprocal_deviation = call.saved_floats(saved.reciprocal_deviation);
  call.kernels.norm_forward(call.stream, n);
}

void normalize_input_backward(const PartCall& call, const NormTensors& tensors, const NormSaved& saved,
                              const void* normalized_gradient, void* normalized, void* scratch) {
  const std::int64_t width = call.architecture().width;
  NormBackward n;
  n.tokens = call.model.tokens(), n.width = width;
  n.subtract_mean = call.architecture().subtracts_mean();
  n.input = call.read(call.buffers.input, width);
  n.gain = call.parameter(tensors.gain, width);
  n.bias = call.parameter(tensors.bias, width);
  n.mean = call.saved_floats(saved.mean);
  n.reciprocal_deviation = call.saved_floats(saved.reciprocal_deviation);
  n.output_gradient = call.read(normalized_gradient, width);
  n.input_gradient = call.write(call.buffers.residual_gradient, width);
  n.input_gradient_sums = call.residual_gradient_sums();
  n.input_adds = true;
  n.normalized = call.write(normalized, width);
  n.gain_gradient = call.gradient(tensors.gain, width);
  n.bias_gradient = call.gradient(tensors.bias, width);
  n.scratch = scratch;
  call.kernels.norm_backward(call.stream, n);
}

void input_gradient(const PartCall& call, LinearBackward linear, const View& gradient, bool adds) {
  linear.weight_gradient = {}, linear.bias_gradient = {};
  linear.input_gradient = gradient, linear.input_adds = adds;
  call.kernels.linear_backward(call.stream, linear);
}

void weight_gradients(const PartCall& call, LinearBackward linear, const ConstView& input) {
  linear.input = input;
  call.kernels.linear_backward(call.stream, linear);
}

ConstView branch_gradient(const PartCall& call, DropoutSite site, void* masked) {
  const std::int64_t width = call.architecture().width;
  const ConstView gradient = call.read(call.buffers.residual_gradient, width);
  const Dropout dropout = call.dropout(site);
  if (!dropout.on()) return gradient;
  call.kernels.dropout(call.stream, gradient, call.write(masked, width), call.model.tokens(), width, dropout);
  return call.read(masked, width);
}

}  // namespace tessera
