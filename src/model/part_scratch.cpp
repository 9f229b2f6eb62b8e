#include "model/part_scratch.hpp"

#include <algorithm>

namespace tessera {

std::int64_t ffn_stride(const ModelParts& model) {
  return kernel_needs(model.device).row_stride(model.architecture.ffn_width);
}

AttentionShape attention_shape(const ModelParts& model) {
  const Architecture& a = model.architecture;
  return {model.batch, model.sequence, a.heads, a.kv_heads, a.head_width()};
}

AttentionBackwardScratch::AttentionBackwardScratch(ScratchLayout& scratch, const ModelParts& model) {
  const Architecture& a = model.architecture;
  const std::int64_t tokens = model.tokens(), width = a.width;
  normalized = scratch.take_matrix(tokens, width, model.compute);
  qkv_gradient = scratch.take_matrix(tokens, a.qkv_width(), model.compute);
  width_gradient = scratch.take_matrix(tokens, std::max(width, a.query_width()), model.compute);
  if (a.dropout > 0) masked_gradient = scratch.take_matrix(tokens, width, model.compute);
  attention = scratch.take_bytes(kernel_needs(model.device).attention_backward(attention_shape(model), model.compute));
  const KernelNeeds& needs = kernel_needs(model.device);
  const std::int64_t of_heads = a.head_norms ? needs.norm_backward(tokens * a.heads, a.head_width()) : 0;
  norm = scratch.take_bytes(std::max(needs.norm_backward(tokens, width), of_heads));
}

MlpForwardScratch::MlpForwardScratch(ScratchLayout& scratch, const ModelParts& model)
    : normalized(scratch.take_matrix(model.tokens(), model.architecture.width, model.compute)) {
  if (!model.keeps_activated) activated = scratch.take_matrix(model.tokens(), ffn_stride(model), model.compute);
}

MlpBackwardScratch::MlpBackwardScratch(ScratchLayout& scratch, const ModelParts& model) {
  const std::int64_t tokens = model.tokens(), width = model.architecture.width;
  const std::int64_t ffn = ffn_stride(model);
  const std::int64_t row_bytes = round_up(tokens * width * size_of(model.compute), ScratchLayout::kAlignment);
  const std::int64_t activated_bytes = model.keeps_activated ? 0 : tokens * ffn * size_of(model.compute);
  const std::int64_t reused_bytes = std::max(activated_bytes, 2 * row_bytes);
  void* const reused = scratch.take_bytes(reused_bytes);
  if (!model.keeps_activated) activated = reused;
  ScratchLayout again(reused, reused_bytes);
  normalized = again.take_bytes(row_bytes);
  width_gradient = again.take_bytes(row_bytes);
  if (model.architecture.mlp == MlpKind::swiglu) gate_gradient = scratch.take_matrix(tokens, ffn, model.compute);
  up_gradient = scratch.take_matrix(tokens, ffn, model.compute);
  if (model.architecture.dropout > 0) masked_gradient = scratch.take_matrix(tokens, width, model.compute);
  norm = scratch.take_bytes(kernel_needs(model.device).norm_backward(tokens, width));
}

LogitsScratch::LogitsScratch(ScratchLayout& scratch, const ModelParts& model)
    : rows(scratch.take_matrix(model.batch, model.architecture.width, model.compute)),
      normalized(scratch.take_matrix(model.batch, model.architecture.width, model.compute)),
      mean(scratch.take<float>(model.batch)),
      reciprocal_deviation(scratch.take<float>(model.batch)) {}

}  // namespace tessera
