// The common parts of a block's halves: the norm at their start, linears, and the residual path at their end.

#include "model/decoder_parts.hpp"

namespace tessera {

namespace {

/// Returns the columns of a weight as it is stored.
std::int64_t weight_columns(WeightLayout layout, std::int64_t in, std::int64_t out) {
  return layout == WeightLayout::in_out ? out : in;
}

/// The norm of a block's input: shape, input, statistics, gain and bias of forward or backward.
template <class Arguments>
Arguments input_norm(const PartCall& call, Role gain) {
  Arguments n;
  n.tokens = call.model.tokens(), n.width = call.architecture().width;
  n.subtract_mean = call.architecture().subtracts_mean();
  n.input = call.read(call.buffers.input, n.width);
  n.gain = call.parameter(gain, n.width);
  n.bias = call.parameter(bias_of(gain), n.width);
  n.mean = call.saved_floats(SavedRole::mean);
  n.reciprocal_deviation = call.saved_floats(SavedRole::reciprocal_deviation);
  return n;
}

}  // namespace

LinearForward linear_forward(const PartCall& call, Role weight, std::int64_t in, std::int64_t out) {
  LinearForward l;
  l.tokens = call.model.tokens(), l.in = in, l.out = out;
  l.layout = rules_of(call.architecture().family).weight_layout;
  l.weight = call.parameter(weight, weight_columns(l.layout, in, out));
  l.bias = call.parameter(bias_of(weight), out);
  return l;
}

LinearBackward linear_backward(const PartCall& call, Role weight, std::int64_t in, std::int64_t out) {
  LinearBackward l;
  l.tokens = call.model.tokens(), l.in = in, l.out = out;
  l.layout = rules_of(call.architecture().family).weight_layout;
  l.weight = call.parameter(weight, weight_columns(l.layout, in, out));
  l.weight_gradient = call.gradient(weight, weight_columns(l.layout, in, out));
  l.bias_gradient = call.gradient(bias_of(weight), out);
  return l;
}

void normalize_input(const PartCall& call, Role gain, void* normalized) {
  auto n = input_norm<NormForward>(call, gain);
  n.epsilon = static_cast<float>(call.architecture().norm_epsilon);
  n.output = call.write(normalized, n.width);
  call.kernels.norm_forward(call.stream, n);
}

void normalize_input_backward(const PartCall& call, Role gain, const void* normalized_gradient, void* normalized,
                              void* scratch) {
  auto n = input_norm<NormBackward>(call, gain);
  n.output_gradient = call.read(normalized_gradient, n.width);
  n.input_gradient = call.write(call.buffers.residual_gradient, n.width);
  n.input_gradient_sums = call.residual_gradient_sums();
  n.input_adds = true;
  n.normalized = call.write(normalized, n.width);
  n.gain_gradient = call.gradient(gain, n.width);
  n.bias_gradient = call.gradient(bias_of(gain), n.width);
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
