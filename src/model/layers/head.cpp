#include "model/layer_call.hpp"
#include "tessera/kernels/needs.hpp"

namespace tessera {

namespace {

void run(const LayerCall& call, bool trains) {
  const Layer& layer = call.layer;
  HeadLoss h;
  h.tokens = layer.rows, h.width = layer.in, h.vocab = layer.out;
  h.table_rows = layer.table_rows;
  h.logits = call.model.logits;
  h.epsilon = static_cast<float>(layer.epsilon), h.gain_offset = static_cast<float>(layer.gain_offset);
  h.subtract_mean = layer.subtracts_mean;
  h.input = call.view(layer.inputs[0]);
  h.gain = call.parameter(layer.weight, layer.in), h.bias = call.parameter(layer.bias, layer.in);
  h.table = call.parameter(layer.table, layer.in);
  h.targets = call.buffers.targets;
  h.loss = call.buffers.loss, h.token_losses = call.buffers.token_losses;
  h.sample_losses = call.buffers.sample_losses, h.samples = call.model.batch;
  if (trains) {
    h.input_gradient = call.gradient(layer.inputs[0]);
    h.input_gradient_sums = call.residual_gradient_sums();
    h.gradient_largest = call.restart_residual_gradient_largest();
    h.gain_gradient = call.parameter_gradient(layer.weight, layer.in);
    h.bias_gradient = call.parameter_gradient(layer.bias, layer.in);
    h.table_gradient = call.parameter_gradient(layer.table, layer.in);
    h.scalars = call.buffers.scalars;
    TESSERA_ASSERT(h.training(), "the head's backward has no memory for its input's gradient");
  }
  h.scratch = call.kernel_scratch([&] { return kernel_needs(call.model.device).head(h.shape()); });
  call.add(h);
}

}  // namespace

void head_forward(const LayerCall& call) { run(call, false); }

void head_backward(const LayerCall& call, BackwardTurn::Half) { run(call, true); }

}  // namespace tessera
