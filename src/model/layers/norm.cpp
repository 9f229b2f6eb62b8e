#include "model/layer_call.hpp"
#include "tessera/kernels/needs.hpp"

namespace tessera {

namespace {

/// Shape, input, statistics, gain and bias of forward or backward.
template <class Arguments>
Arguments norm_of(const LayerCall& call) {
  const Layer& layer = call.layer;
  Arguments n;
  n.tokens = layer.rows, n.width = layer.in;
  n.subtract_mean = layer.subtracts_mean, n.gain_offset = static_cast<float>(layer.gain_offset);
  n.input = call.view(layer.inputs[0]);
  n.gain = call.parameter(layer.weight, n.width), n.bias = call.parameter(layer.bias, n.width);
  n.reciprocal_deviation = call.floats(layer.outputs[1]);
  if (n.subtract_mean) n.mean = call.floats(layer.outputs[2]);
  return n;
}

}  // namespace

void norm_forward(const LayerCall& call) {
  auto n = norm_of<NormForward>(call);
  n.epsilon = static_cast<float>(call.layer.epsilon);
  const MatrixSlice& output = call.layer.outputs[0];
  if (call.is_wanted(output)) n.output = call.view(output), n.largest = call.largest(output);
  if (call.is_wanted(output) && output.matrix == kPartOutput) n.residual = call.view({kPartInput, 0, n.width});
  call.add(n);
}

void norm_backward(const LayerCall& call, BackwardTurn::Half) {
  const Layer& layer = call.layer;
  auto n = norm_of<NormBackward>(call);
  n.output_gradient = call.gradient(layer.outputs[0]);
  n.input_gradient = call.gradient(layer.inputs[0]), n.gradient_largest = call.largest_of_gradient(layer.inputs[0]);
  if (layer.inputs[0].matrix == kPartInput) {
    n.input_gradient_sums = call.residual_gradient_sums();
    n.gradient_largest = call.restart_residual_gradient_largest();
    n.input_adds = true;
    if (call.matrix_of(layer.outputs[0]).feeds_gradient)
      n.normalized = call.view(layer.outputs[0]), n.normalized_largest = call.largest(layer.outputs[0]);
  }
  n.gain_gradient = call.parameter_gradient(layer.weight, n.width);
  n.bias_gradient = call.parameter_gradient(layer.bias, n.width);
  n.scratch = call.kernel_scratch([&] { return kernel_needs(call.model.device).norm_backward(n.tokens, n.width); });
  call.add(n);
}

}  // namespace tessera
