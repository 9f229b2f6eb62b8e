#include "model/part_scratch.hpp"

#include <algorithm>
#include <cstddef>

#include "tessera/base/math.hpp"

namespace tessera {

namespace {

/// Hands out 64-byte aligned pieces of `memory`; with null memory it only counts.
class Pieces {
 public:
  explicit Pieces(void* memory) : memory_(static_cast<std::byte*>(memory)) {}
  void* bytes(std::int64_t n) {
    const std::int64_t at = used_;
    used_ = checked_add(used_, round_up(n, 64));
    return memory_ == nullptr ? nullptr : memory_ + at;
  }
  void* elements(std::int64_t rows, std::int64_t columns, DType dtype) {
    return bytes(checked_multiply(checked_multiply(rows, columns), size_of(dtype)));
  }
  std::int64_t used() const { return used_; }

 private:
  std::byte* memory_;
  std::int64_t used_ = 0;
};

}  // namespace

std::int64_t qkv_width(const Architecture& a) { return (a.heads + 2 * a.kv_heads) * a.head_width(); }

std::int64_t ffn_stride(const ModelParts& model) {
  return kernel_needs(model.device).row_stride(model.architecture.ffn_width);
}

AttentionShape attention_shape(const ModelParts& model) {
  const Architecture& a = model.architecture;
  return {model.batch, model.sequence, a.heads, a.kv_heads, a.head_width()};
}

AttentionBackwardScratch attention_backward_scratch(const ModelParts& model, void* memory) {
  const std::int64_t tokens = model.tokens(), width = model.architecture.width;
  Pieces pieces(memory);
  AttentionBackwardScratch s;
  s.normalized = pieces.elements(tokens, width, model.compute);
  s.qkv_gradient = pieces.elements(tokens, qkv_width(model.architecture), model.compute);
  s.width_gradient = pieces.elements(tokens, width, model.compute);
  if (model.architecture.dropout > 0) s.masked_gradient = pieces.elements(tokens, width, model.compute);
  s.attention = pieces.bytes(kernel_needs(model.device).attention_backward(attention_shape(model), model.compute));
  s.norm = pieces.bytes(kernel_needs(model.device).norm_backward(tokens, width));
  s.bytes = pieces.used();
  return s;
}

MlpForwardScratch mlp_forward_scratch(const ModelParts& model, void* memory) {
  Pieces pieces(memory);
  MlpForwardScratch s;
  s.normalized = pieces.elements(model.tokens(), model.architecture.width, model.compute);
  if (!model.keeps_activated) s.activated = pieces.elements(model.tokens(), ffn_stride(model), model.compute);
  s.bytes = pieces.used();
  return s;
}

MlpBackwardScratch mlp_backward_scratch(const ModelParts& model, void* memory) {
  const std::int64_t tokens = model.tokens(), width = model.architecture.width;
  const std::int64_t ffn = ffn_stride(model);
  const bool gated = model.architecture.mlp == MlpKind::swiglu;
  Pieces pieces(memory);
  MlpBackwardScratch s;
  const std::int64_t row_bytes = round_up(tokens * width * size_of(model.compute), 64);
  const std::int64_t activated_bytes = model.keeps_activated ? 0 : tokens * ffn * size_of(model.compute);
  void* const reused = pieces.bytes(std::max(activated_bytes, 2 * row_bytes));
  if (!model.keeps_activated) s.activated = reused;
  Pieces again(reused);
  s.normalized = again.bytes(row_bytes);
  s.width_gradient = again.bytes(row_bytes);
  if (gated) s.gate_gradient = pieces.elements(tokens, ffn, model.compute);
  s.up_gradient = pieces.elements(tokens, ffn, model.compute);
  if (model.architecture.dropout > 0) s.masked_gradient = pieces.elements(tokens, width, model.compute);
  s.norm = pieces.bytes(kernel_needs(model.device).norm_backward(tokens, width));
  s.bytes = pieces.used();
  return s;
}

LogitsScratch logits_scratch(const ModelParts& model, void* memory) {
  Pieces pieces(memory);
  LogitsScratch s;
  s.rows = pieces.elements(model.batch, model.architecture.width, model.compute);
  s.normalized = pieces.elements(model.batch, model.architecture.width, model.compute);
  s.mean = static_cast<float*>(pieces.elements(model.batch, 1, DType::fp32));
  s.reciprocal_deviation = static_cast<float*>(pieces.elements(model.batch, 1, DType::fp32));
  s.bytes = pieces.used();
  return s;
}

}  // namespace tessera
