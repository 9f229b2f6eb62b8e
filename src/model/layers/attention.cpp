#include "model/layer_call.hpp"
#include "tessera/kernels/needs.hpp"

namespace tessera {

namespace {

/// The shape, positions, queries, keys and values of forward or backward.
template <class Arguments>
Arguments attention_of(const LayerCall& call) {
  const Layer& layer = call.layer;
  Arguments a;
  a.shape = attention_shape(call.model, layer);
  a.query = call.view(layer.inputs[0]), a.key = call.view(layer.inputs[1]), a.value = call.view(layer.inputs[2]);
  a.positions = call.buffers.positions;
  return a;
}

/// Attends to the cache, which takes up the new keys and values.
void cached_attention(const LayerCall& call) {
  const View keys{call.buffers.cache, call.model.compute, call.layer.kv_heads * call.layer.head_width};
  auto c = attention_of<AttentionCached>(call);
  c.limit = call.layer.cache, c.counts = call.buffers.counts;
  c.key_cache = keys, c.value_cache = keys.rows_from(call.model.batch * c.limit);
  c.output = call.view(call.layer.outputs[0]);
  call.add(c);
}

}  // namespace

void attention_forward(const LayerCall& call) {
  if (call.model.generates()) return cached_attention(call);
  auto f = attention_of<AttentionForward>(call);
  f.output = call.view(call.layer.outputs[0]);
  f.log_sum_exp = call.floats(call.layer.outputs[1]);
  f.dropout = call.dropout(), f.borders = call.buffers.borders;
  call.add(f);
}

void attention_backward(const LayerCall& call, BackwardTurn::Half) {
  const Layer& layer = call.layer;
  auto b = attention_of<AttentionBackward>(call);
  b.output = call.view(layer.outputs[0]);
  b.log_sum_exp = call.floats(layer.outputs[1]);
  b.output_gradient = call.gradient(layer.outputs[0]);
  b.query_gradient = call.gradient(layer.inputs[0]), b.key_gradient = call.gradient(layer.inputs[1]);
  b.value_gradient = call.gradient(layer.inputs[2]);
  b.dropout = call.dropout(), b.borders = call.buffers.borders;
  b.scratch = call.kernel_scratch([&] {
    const GpuAttention by = possible_attention(call.model.attention, b.shape, call.model.compute);
    return kernel_needs(call.model.device).attention_backward(b.shape, call.model.compute, by);
  });
  call.add(b);
}

}  // namespace tessera
