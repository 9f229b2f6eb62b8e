#include "model/layer_call.hpp"
#include "tessera/kernels/needs.hpp"

namespace tessera {

namespace {

template <class Arguments>
Arguments embedding_of(const LayerCall& call) {
  Arguments e;
  e.batch = call.model.batch, e.sequence = call.layer.rows / e.batch;
  e.width = call.layer.out, e.vocab = call.layer.table_rows;
  e.scale = static_cast<float>(call.layer.scale);
  e.tokens = call.buffers.tokens, e.positions = call.buffers.positions;
  e.dropout = call.dropout();
  return e;
}

}  // namespace

void embedding_forward(const LayerCall& call) {
  const Layer& layer = call.layer;
  auto e = embedding_of<EmbeddingForward>(call);
  e.token_table = call.parameter(layer.table, e.width);
  e.position_table = call.parameter(layer.weight, e.width);
  if (!layer.inputs.empty()) e.token_table = call.view(layer.inputs[0]), e.tokens = call.buffers.rows;
  e.output = call.view(layer.outputs[0]);
  call.add(e);
}

void embedding_backward(const LayerCall& call, BackwardTurn::Half) {
  auto e = embedding_of<EmbeddingBackward>(call);
  e.context = call.model.architecture.context;
  e.output_gradient = call.gradient(call.layer.outputs[0]);
  e.token_gradient = call.parameter_gradient(call.layer.table, e.width);
  e.position_gradient = call.parameter_gradient(call.layer.weight, e.width);
  e.scratch = call.kernel_scratch([&] { return kernel_needs(call.model.device).embedding_backward(call.layer.rows); });
  call.add(e);
}

}  // namespace tessera
