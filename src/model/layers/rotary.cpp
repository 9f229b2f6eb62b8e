#include "model/layer_call.hpp"

namespace tessera {

namespace {

/// Rotates heads of each row in place.
void rotate(const LayerCall& call, const View& rows, bool inverse) {
  const Layer& layer = call.layer;
  Rotate r;
  r.batch = call.model.batch, r.sequence = call.model.sequence;
  r.heads = layer.heads, r.head_width = layer.head_width;
  r.table = static_cast<const float*>(call.buffers.constants[static_cast<std::size_t>(layer.constant)]);
  r.positions = call.buffers.positions;
  r.inverse = inverse;
  r.input = rows, r.output = rows;
  call.add(r);
}

}  // namespace

void rotary_forward(const LayerCall& call) { rotate(call, call.view(call.layer.outputs[0]), false); }

void rotary_backward(const LayerCall& call, BackwardTurn::Half) {
  rotate(call, call.gradient(call.layer.outputs[0]), true);
}

}  // namespace tessera
