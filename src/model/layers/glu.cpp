#include "model/layer_call.hpp"

namespace tessera {

void glu_forward(const LayerCall& call) {
  const Layer& layer = call.layer;
  GluForward f;
  f.activation = layer.activation;
  f.tokens = layer.rows, f.width = layer.in;
  f.gate = call.view(layer.inputs[0]), f.up = call.view(layer.inputs[1]);
  f.output = call.view(layer.outputs[0]), f.largest = call.largest(layer.outputs[0]);
  call.add(f);
}

void glu_backward(const LayerCall& call, BackwardTurn::Half) {
  const Layer& layer = call.layer;
  GluBackward b;
  b.activation = layer.activation;
  b.tokens = layer.rows, b.width = layer.in;
  b.gate = call.view(layer.inputs[0]), b.up = call.view(layer.inputs[1]);
  b.output_gradient = call.gradient(layer.outputs[0]);
  b.gate_gradient8 = call.gradient_in_fp8(layer.inputs[0]), b.up_gradient8 = call.gradient_in_fp8(layer.inputs[1]);
  if (!b.gate_gradient8)
    b.gate_gradient = call.gradient(layer.inputs[0]), b.up_gradient = call.gradient(layer.inputs[1]);
  b.gate_largest = call.largest_of_gradient(layer.inputs[0]), b.up_largest = call.largest_of_gradient(layer.inputs[1]);
  const MatrixSlice& output = layer.outputs[0];
  if (call.matrix_of(output).feeds_gradient && !call.is_saved(output)) {
    const auto again = call.again_in_fp8(output);
    if (again) b.output8 = {Fp8::e4m3, {}, again->codes, again->factor};
    if (!again) b.output = call.view(output);
    b.output_largest = call.largest(output);
  }
  call.add(b);
}

}  // namespace tessera
