// What both halves of a block share: the norm at their start and the residual path at their end.

#include "model/decoder_parts.hpp"

namespace tessera {

static_assert(int{AttentionTensors::norm_gain} == int{MlpTensors::norm_gain} &&
              int{AttentionTensors::norm_bias} == int{MlpTensors::norm_bias} &&
              int{AttentionSaved::mean} == int{MlpSaved::mean} &&
              int{AttentionSaved::reciprocal_deviation} == int{MlpSaved::reciprocal_deviation});

void normalize_input(const PartCall& call, void* normalized, bool given_statistics) {
  const std::int64_t width = call.architecture().width;
  NormForward n;
  n.tokens = call.model.tokens(), n.width = width;
  n.epsilon = static_cast<float>(call.architecture().norm_epsilon);
  n.input = call.read(call.buffers.input, width);
  n.gain = call.parameter(AttentionTensors::norm_gain, width);
  n.bias = call.parameter(AttentionTensors::norm_bias, width);
  n.output = call.write(normalized, width);
  n.mean = call.saved_floats(AttentionSaved::mean);
  n.reciprocal_deviation = call.saved_floats(AttentionSaved::reciprocal_deviation);
  n.given_statistics = given_statistics;
  call.kernels.norm_forward(call.stream, n);
}

void normalize_input_backward(const PartCall& call, const void* normalized_gradient, void* scratch) {
  const std::int64_t width = call.architecture().width;
  NormBackward n;
  n.tokens = call.model.tokens(), n.width = width;
  n.input = call.read(call.buffers.input, width);
  n.gain = call.parameter(AttentionTensors::norm_gain, width);
  n.mean = call.saved_floats(AttentionSaved::mean);
  n.reciprocal_deviation = call.saved_floats(AttentionSaved::reciprocal_deviation);
  n.output_gradient = call.read(normalized_gradient, width);
  n.input_gradient = call.write(call.buffers.residual_gradient, width);
  n.input_adds = true;
  n.gain_gradient = call.gradient(AttentionTensors::norm_gain, width);
  n.bias_gradient = call.gradient(AttentionTensors::norm_bias, width);
  n.scratch = scratch;
  call.kernels.norm_backward(call.stream, n);
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
