#include "kernels/cpu/layouts.hpp"

namespace tessera {

namespace {

/// A chunk's logits are 64 MiB at most (fewer chunks read the vocabulary's table fewer times), and at least 16 tokens.
Tiling head_chunks(std::int64_t tokens, std::int64_t vocab) {
  constexpr std::int64_t kLogits = std::int64_t{1} << 24;
  return Tiling::balanced(tokens, std::max<std::int64_t>(16, kLogits / vocab), 16);
}

/// Rows of logits end off a power of two, so that rows do not compete for the same cache sets.
std::int64_t padded_stride(std::int64_t vocab) {
  const std::int64_t stride = round_up(vocab, 16);
  return stride % 256 == 0 ? stride + 16 : stride;
}

}  // namespace

NormBackwardLayout::NormBackwardLayout(ScratchLayout& scratch, std::int64_t tokens, std::int64_t width)
    : groups(Tiling::of_size(tokens, 32)),
      gain_sums(scratch.take<float>(groups.count() * width)),
      bias_sums(scratch.take<float>(groups.count() * width)) {}

AttentionBackwardLayout::AttentionBackwardLayout(ScratchLayout& scratch, const AttentionShape& shape, DType dtype)
    : query_gradient(dtype == DType::fp32
                         ? nullptr
                         : scratch.take<float>(shape.batch * shape.sequence * shape.heads * shape.head_width)),
      delta(scratch.take<float>(shape.batch * shape.heads * shape.sequence)) {}

HeadLayout::HeadLayout(ScratchLayout& scratch, const HeadShape& shape)
    : chunks(head_chunks(shape.tokens, shape.vocab)),
      logit_columns(Tiling::balanced(shape.vocab, 384, 16)),
      vocab_groups(Tiling::balanced(shape.vocab, std::max<std::int64_t>(3200, ceil_div(shape.vocab, 16)), 16)),
      logits_stride(padded_stride(shape.vocab)),
      normalized(scratch.take_bytes(shape.tokens * shape.width * size_of(shape.compute))),
      mean(scratch.take<float>(shape.tokens)),
      reciprocal_deviation(scratch.take<float>(shape.tokens)),
      logits(scratch.take<float>(checked_multiply(chunks.largest(), logits_stride))),
      tile_maximum(scratch.take<float>(chunks.largest() * logit_columns.count())),
      tile_sum(scratch.take<float>(chunks.largest() * logit_columns.count())),
      log_sum_exp(scratch.take<float>(chunks.largest())),
      token_loss(scratch.take<double>(chunks.largest())) {
  if (!shape.training) return;
  normalized_gradient = scratch.take_bytes(shape.tokens * shape.width * size_of(shape.compute));
  partial_gradient = scratch.take<float>(vocab_groups.count() * chunks.largest() * shape.width);
  if (shape.gradient != DType::fp32 && chunks.count() > 1)
    table_sum = scratch.take<float>(checked_multiply(shape.vocab, shape.width));
  norm_scratch = scratch.take_bytes(cpu_kernel_needs().norm_backward(shape.tokens, shape.width));
}

OrthogonalizeLayout::OrthogonalizeLayout(ScratchLayout& scratch, std::int64_t rows, std::int64_t columns)
    : x(scratch.take<float>(checked_multiply(rows, columns))),
      next(scratch.take<float>(rows * columns)),
      gram(scratch.take<float>(std::min(rows, columns) * std::min(rows, columns))),
      polynomial(scratch.take<float>(std::min(rows, columns) * std::min(rows, columns))),
      row_sums(scratch.take<double>(rows)) {}

namespace {

class CpuKernelNeeds final : public KernelNeeds {
 public:
  std::int64_t embedding_backward(std::int64_t tokens) const override {
    ScratchLayout scratch;
    scratch.take<std::int32_t>(tokens);  // places in order of their token
    return scratch.used();
  }
  std::int64_t norm_backward(std::int64_t tokens, std::int64_t width) const override {
    return scratch_bytes_of<NormBackwardLayout>(tokens, width);
  }
  std::int64_t attention_backward(const AttentionShape& shape, DType dtype, GpuAttention) const override {
    return scratch_bytes_of<AttentionBackwardLayout>(shape, dtype);
  }
  std::int64_t head(const HeadShape& shape) const override { return scratch_bytes_of<HeadLayout>(shape); }
  std::int64_t orthogonalize(std::int64_t rows, std::int64_t columns) const override {
    return scratch_bytes_of<OrthogonalizeLayout>(rows, columns);
  }
  /// A linear's backward sums its output's gradient while that is in a cache.
  std::int64_t gradient_sum_rows(std::int64_t, std::int64_t) const override { return 0; }
  bool packs_fp8() const override { return false; }
  /// Rows a multiple of 4 KiB apart would share cache sets, which makes matmuls that walk down columns 10% slower.
  std::int64_t row_stride(std::int64_t width) const override { return width % 1024 == 0 ? width + 256 : width; }
  /// A thread's own scratch is not memory of a device.
  std::int64_t workspace() const override { return 0; }
  std::int64_t exchange(std::int64_t) const override { return 0; }
  std::int64_t limited(std::int64_t on_device, std::int64_t on_host) const override { return on_device + on_host; }
};

}  // namespace

const KernelNeeds& cpu_kernel_needs() {
  static const CpuKernelNeeds needs;
  return needs;
}

}  // namespace tessera
