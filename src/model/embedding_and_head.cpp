// The two ends of the decoder: embedding and head.

#include "model/decoder_parts.hpp"
#include "model/part_scratch.hpp"

namespace tessera {

void embedding_forward_part(const PartCall& call) {
  const Architecture& a = call.architecture();
  EmbeddingForward e;
  e.batch = call.model.batch, e.sequence = call.model.sequence, e.width = a.width, e.vocab = a.vocab;
  e.tokens = call.buffers.tokens, e.positions = call.buffers.positions;
  e.token_table = call.parameter(Role::token_table, a.width);
  e.position_table = call.parameter(Role::position_table, a.width);
  e.output = call.write(call.buffers.output, a.width);
  e.dropout = call.dropout(DropoutSite::embedding);
  call.kernels.embedding_forward(call.stream, e);
}

void embedding_backward_part(const PartCall& call) {
  const Architecture& a = call.architecture();
  EmbeddingBackward e;
  e.batch = call.model.batch, e.sequence = call.model.sequence, e.width = a.width, e.vocab = a.vocab,
  e.context = a.context;
  e.tokens = call.buffers.tokens, e.positions = call.buffers.positions;
  e.output_gradient = call.read(call.buffers.residual_gradient, a.width);
  e.token_gradient = call.gradient(Role::token_table, a.width);
  e.position_gradient = call.gradient(Role::position_table, a.width);
  e.dropout = call.dropout(DropoutSite::embedding);
  e.scratch = call.buffers.scratch;
  call.kernels.embedding_backward(call.stream, e);
}

namespace {

/// Returns the role of the table that the head reads.
Role table_of(const Architecture& a) { return a.tied_head ? Role::token_table : Role::head_table; }

HeadArguments head_arguments(const PartCall& call) {
  const Architecture& a = call.architecture();
  HeadArguments h;
  h.tokens = call.model.tokens(), h.width = a.width, h.vocab = a.vocab;
  h.table_rows = call.model.tensors[call.part.tensors[call.place_of(table_of(a))]].padded_elements() / a.width;
  h.logits = call.model.logits;
  h.epsilon = static_cast<float>(a.norm_epsilon);
  h.subtract_mean = a.subtracts_mean();
  h.input = call.read(call.buffers.input, a.width);
  h.gain = call.parameter(Role::final_norm_gain, a.width);
  h.bias = call.parameter(Role::final_norm_bias, a.width);
  h.table = call.parameter(table_of(a), a.width);
  h.targets = call.buffers.targets;
  h.loss = call.buffers.loss;
  h.token_losses = call.buffers.token_losses;
  h.scratch = call.buffers.scratch;
  return h;
}

}  // namespace

void head_loss_part(const PartCall& call) { call.kernels.head(call.stream, head_arguments(call)); }

void head_logits_part(const PartCall& call) {
  const Architecture& a = call.architecture();
  const std::int64_t batch = call.model.batch;
  ScratchLayout scratch = call.scratch(call.part.forward);
  const LogitsScratch s(scratch, call.model);
  EmbeddingForward pick;  // rows of the residual stream, by their numbers
  pick.batch = batch, pick.sequence = 1, pick.width = a.width, pick.vocab = call.model.tokens();
  pick.tokens = call.buffers.rows;
  pick.token_table = call.read(call.buffers.input, a.width);
  pick.output = call.write(s.rows, a.width);
  call.kernels.embedding_forward(call.stream, pick);
  NormForward n;
  n.tokens = batch, n.width = a.width;
  n.epsilon = static_cast<float>(a.norm_epsilon), n.subtract_mean = a.subtracts_mean();
  n.input = call.read(s.rows, a.width);
  n.gain = call.parameter(Role::final_norm_gain, a.width), n.bias = call.parameter(Role::final_norm_bias, a.width);
  n.output = call.write(s.normalized, a.width);
  n.mean = s.mean, n.reciprocal_deviation = s.reciprocal_deviation;
  call.kernels.norm_forward(call.stream, n);
  LinearForward l;
  l.tokens = batch, l.in = a.width, l.out = a.vocab;
  l.layout = WeightLayout::out_in;
  l.input = call.read(s.normalized, a.width);
  l.weight = call.parameter(table_of(a), a.width);
  l.output = {call.buffers.logits, DType::fp32, a.vocab};
  call.kernels.linear_forward(call.stream, l);
}

void head_training_part(const PartCall& call) {
  const std::int64_t width = call.architecture().width;
  HeadArguments h = head_arguments(call);
  h.input_gradient = call.write(call.buffers.residual_gradient, width);
  h.input_gradient_sums = call.residual_gradient_sums();
  h.gain_gradient = call.gradient(Role::final_norm_gain, width);
  h.bias_gradient = call.gradient(Role::final_norm_bias, width);
  h.table_gradient = call.gradient(table_of(call.architecture()), width);
  h.scalars = call.buffers.scalars;
  TESSERA_ASSERT(h.training(), "the head's backward has no memory for its input's gradient");
  call.kernels.head(call.stream, h);
}

}  // namespace tessera
