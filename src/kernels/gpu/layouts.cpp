#include "kernels/gpu/layouts.hpp"

#include "tessera/kernels/host_exchange.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kWorkspaceAlignment = 256;

/// The first multiple of `alignment` from `memory` on; null stays null.
void* aligned(void* memory, std::int64_t alignment) {
  if (memory == nullptr) return nullptr;
  const auto step = static_cast<std::uintptr_t>(alignment), at = reinterpret_cast<std::uintptr_t>(memory);
  return static_cast<std::byte*>(memory) + (step - at % step) % step;
}

}  // namespace

CudaEmbeddingBackwardLayout::CudaEmbeddingBackwardLayout(ScratchLayout& scratch, std::int64_t tokens)
    : keys(scratch.take<std::uint64_t>(tokens)), merged(scratch.take<std::uint64_t>(tokens)) {}

CudaNormBackwardLayout::CudaNormBackwardLayout(ScratchLayout& scratch, std::int64_t tokens, std::int64_t width)
    : groups(groups_of(tokens, width)),
      gain_sums(scratch.take<float>(groups.count() * width)),
      bias_sums(scratch.take<float>(groups.count() * width)) {}

Tiling CudaNormBackwardLayout::groups_of(std::int64_t tokens, std::int64_t width) {
  const std::int64_t most = width > 1536 && width <= 2048 ? 384 : 512;
  return Tiling::of_size(tokens, std::max<std::int64_t>(16, ceil_div(tokens, most)));
}

CudaAttentionBackwardLayout::CudaAttentionBackwardLayout(ScratchLayout& scratch, const AttentionShape& shape)
    : delta(scratch.take<float>(shape.batch * shape.heads * shape.sequence)) {}

CudnnDocumentsLayout::CudnnDocumentsLayout(ScratchLayout& scratch, std::int64_t documents)
    : lengths(scratch.take<std::int32_t>(documents)) {
  for (std::int32_t** const offsets : {&query, &key, &value, &output, &log_sum_exp})
    *offsets = scratch.take<std::int32_t>(documents > 0 ? documents + 1 : 0);
}

namespace {

/// Returns a row for each head of every sequence, or document.
std::int64_t rows_of_heads(const AttentionShape& shape) {
  return checked_multiply(checked_multiply(std::max(shape.batch, shape.documents), shape.heads), shape.sequence);
}

}  // namespace

CudnnAttentionBackwardLayout::CudnnAttentionBackwardLayout(ScratchLayout& scratch, const AttentionShape& shape,
                                                           bool deterministic)
    : documents(scratch, shape.documents), delta(scratch.take<float>(rows_of_heads(shape))) {
  if (!deterministic)
    query_gradient_sum = scratch.take<float>(checked_multiply(rows_of_heads(shape), shape.head_width));
  workspace = scratch.take_bytes(workspace_bytes(shape, deterministic) + kWorkspaceAlignment);
  workspace = aligned(workspace, kWorkspaceAlignment);
}

std::int64_t CudnnAttentionBackwardLayout::workspace_bytes(const AttentionShape& shape, bool deterministic) {
  constexpr std::int64_t kAnything = std::int64_t{64} << 10, kOfDocument = 512;
  const std::int64_t heads = checked_multiply(std::max(shape.batch, shape.documents), shape.heads);
  const std::int64_t each_head = checked_multiply(heads, shape.sequence * shape.head_width * 2);
  // Whole tiles of 64 queries and 128 keys, in two bytes.
  const std::int64_t scores = checked_multiply(heads, round_up(shape.sequence, 64) * round_up(shape.sequence, 128) * 2);
  return kAnything + kOfDocument * shape.documents + (deterministic ? scores : 0) +
         (shape.heads == shape.kv_heads ? 0 : 2 * each_head);
}

CudaOrthogonalizeLayout::CudaOrthogonalizeLayout(ScratchLayout& scratch, std::int64_t rows, std::int64_t columns)
    : stride(round_up(columns, 8)),
      side_stride(round_up(std::min(rows, columns), 8)),
      x(scratch.take_matrix(rows, stride, DType::bf16)),
      next(scratch.take_matrix(rows, stride, DType::bf16)),
      gram(scratch.take_matrix(std::min(rows, columns), side_stride, DType::bf16)),
      polynomial(scratch.take_matrix(std::min(rows, columns), side_stride, DType::bf16)),
      sums(scratch.take<double>(kSums)) {}

namespace {

/// Returns whether the gradient of logits takes its own memory, which it does where it is narrower than they are.
bool is_gradient_apart(const HeadShape& shape) { return shape.training && shape.logits != shape.compute; }

Tiling head_chunks(const HeadShape& shape, std::int64_t most_bytes) {
  const std::int64_t each = size_of(shape.logits) + (is_gradient_apart(shape) ? size_of(shape.compute) : 0);
  const std::int64_t stride = round_up(shape.table_rows, 64);
  return Tiling::balanced(shape.tokens, std::max<std::int64_t>(128, most_bytes / each / stride), 128);
}

}  // namespace

CudaHeadLayout::CudaHeadLayout(ScratchLayout& scratch, const HeadShape& shape, std::int64_t logit_bytes)
    : chunks(head_chunks(shape, logit_bytes)),
      logits_stride(round_up(shape.table_rows, 64)),
      normalized(scratch.take_bytes(shape.tokens * shape.width * size_of(shape.compute))),
      mean(scratch.take<float>(shape.tokens)),
      reciprocal_deviation(scratch.take<float>(shape.tokens)),
      token_loss(scratch.take<double>(shape.tokens)) {
  const std::int64_t most = checked_multiply(chunks.largest(), logits_stride);
  logits = scratch.take_bytes(checked_multiply(most, size_of(shape.logits)));
  if (!shape.training) return;
  logit_gradient = is_gradient_apart(shape) ? scratch.take_bytes(most * size_of(shape.compute)) : logits;
  normalized_gradient = scratch.take_bytes(shape.tokens * shape.width * size_of(shape.compute));
  if (shape.gradient != DType::fp32 && chunks.count() > 1)
    table_sum = scratch.take<float>(checked_multiply(shape.table_rows, shape.width));
  norm_scratch = scratch.take_bytes(gpu_kernel_needs().norm_backward(shape.tokens, shape.width));
}

namespace {

class GpuKernelNeeds final : public KernelNeeds {
 public:
  std::int64_t embedding_backward(std::int64_t tokens) const override {
    return scratch_bytes_of<CudaEmbeddingBackwardLayout>(tokens);
  }
  std::int64_t norm_backward(std::int64_t tokens, std::int64_t width) const override {
    return scratch_bytes_of<CudaNormBackwardLayout>(tokens, width);
  }
  std::int64_t attention_backward(const AttentionShape& shape, DType, GpuAttention by) const override {
    return by == GpuAttention::own
               ? scratch_bytes_of<CudaAttentionBackwardLayout>(shape)
               : scratch_bytes_of<CudnnAttentionBackwardLayout>(shape, by == GpuAttention::deterministic_cudnn);
  }
  std::int64_t head(const HeadShape& shape) const override { return scratch_bytes_of<CudaHeadLayout>(shape); }
  std::int64_t orthogonalize(std::int64_t rows, std::int64_t columns) const override {
    return scratch_bytes_of<CudaOrthogonalizeLayout>(rows, columns);
  }
  std::int64_t gradient_sum_rows(std::int64_t tokens, std::int64_t width) const override {
    return width > CudaNormBackwardLayout::kWidestSummed ? 0 : CudaNormBackwardLayout::groups_of(tokens, width).count();
  }
  bool packs_fp8() const override { return true; }
  /// A GPU gains nothing from a padded stride and would move 8% more bytes.
  std::int64_t row_stride(std::int64_t width) const override { return width; }
  std::int64_t workspace() const override { return kMatmulWorkspaceBytes + kSumWorkspaceBytes; }
  std::int64_t exchange(std::int64_t integers) const override { return exchange_bytes(integers); }
  std::int64_t limited(std::int64_t on_device, std::int64_t) const override { return on_device; }
};

}  // namespace

const KernelNeeds& gpu_kernel_needs() {
  static const GpuKernelNeeds needs;
  return needs;
}

}  // namespace tessera
