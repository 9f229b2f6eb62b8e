#include "kernels/layouts.hpp"

namespace tessera {

namespace {

/// Cuts tokens into chunks of at least 16 whose logits are 64 MiB at most. Fewer chunks read the vocabulary's table
/// fewer times.
Tiling head_chunks(std::int64_t tokens, std::int64_t vocab) {
  constexpr std::int64_t kLogits = std::int64_t{1} << 24;
  return Tiling::balanced(tokens, std::max<std::int64_t>(16, kLogits / vocab), 16);
}

constexpr std::int64_t kWorkspaceAlignment = 256;

/// Returns the first multiple of `alignment` from `memory` on; null stays null.
void* aligned(void* memory, std::int64_t alignment) {
  if (memory == nullptr) return nullptr;
  const auto step = static_cast<std::uintptr_t>(alignment), at = reinterpret_cast<std::uintptr_t>(memory);
  return static_cast<std::byte*>(memory) + (step - at % step) % step;
}

/// Pads rows of logits off a power of two, so that rows do not compete for the same cache sets.
std::int64_t padded_stride(std::int64_t vocab) {
  const std::int64_t stride = round_up(vocab, 16);
  return stride % 256 == 0 ? stride + 16 : stride;
}

}  // namespace

NormBackwardLayout::NormBackwardLayout(Carver& carver, std::int64_t tokens, std::int64_t width)
    : groups(Tiling::of_size(tokens, 32)),
      gain_sums(carver.take<float>(groups.count() * width)),
      bias_sums(carver.take<float>(groups.count() * width)) {}

AttentionBackwardLayout::AttentionBackwardLayout(Carver& carver, const AttentionShape& shape, DType dtype)
    : query_gradient(dtype == DType::fp32
                         ? nullptr
                         : carver.take<float>(shape.batch * shape.sequence * shape.heads * shape.head_width)),
      delta(carver.take<float>(shape.batch * shape.heads * shape.sequence)) {}

HeadLayout::HeadLayout(Carver& carver, std::int64_t tokens, std::int64_t width, std::int64_t vocab, DType compute,
                       DType gradient, bool training)
    : chunks(head_chunks(tokens, vocab)),
      logit_columns(Tiling::balanced(vocab, 384, 16)),
      vocab_groups(Tiling::balanced(vocab, std::max<std::int64_t>(3200, ceil_div(vocab, 16)), 16)),
      logits_stride(padded_stride(vocab)),
      normalized(carver.take_bytes(tokens * width * size_of(compute))),
      mean(carver.take<float>(tokens)),
      reciprocal_deviation(carver.take<float>(tokens)),
      logits(carver.take<float>(checked_multiply(chunks.largest(), logits_stride))),
      tile_maximum(carver.take<float>(chunks.largest() * logit_columns.count())),
      tile_sum(carver.take<float>(chunks.largest() * logit_columns.count())),
      log_sum_exp(carver.take<float>(chunks.largest())),
      token_loss(carver.take<double>(chunks.largest())) {
  if (!training) return;
  normalized_gradient = carver.take_bytes(tokens * width * size_of(compute));
  partial_gradient = carver.take<float>(vocab_groups.count() * chunks.largest() * width);
  if (gradient != DType::fp32 && chunks.count() > 1) table_sum = carver.take<float>(checked_multiply(vocab, width));
  norm_scratch = carver.take_bytes(norm_backward_scratch_bytes(tokens, width));
}

CudaEmbeddingBackwardLayout::CudaEmbeddingBackwardLayout(Carver& carver, std::int64_t tokens)
    : keys(carver.take<std::uint64_t>(tokens)), merged(carver.take<std::uint64_t>(tokens)) {}

CudaNormBackwardLayout::CudaNormBackwardLayout(Carver& carver, std::int64_t tokens, std::int64_t width)
    : groups(Tiling::of_size(tokens, std::max<std::int64_t>(16, ceil_div(tokens, 512)))),
      gain_sums(carver.take<float>(groups.count() * width)),
      bias_sums(carver.take<float>(groups.count() * width)) {}

CudaAttentionBackwardLayout::CudaAttentionBackwardLayout(Carver& carver, const AttentionShape& shape)
    : delta(carver.take<float>(shape.batch * shape.heads * shape.sequence)) {}

CudnnAttentionBackwardLayout::CudnnAttentionBackwardLayout(Carver& carver, const AttentionShape& shape)
    : delta(carver.take<float>(shape.batch * shape.heads * shape.sequence)),
      query_gradient_sum(carver.take<float>(shape.batch * shape.heads * shape.sequence * shape.head_width)),
      workspace(carver.take_bytes(workspace_bytes(shape) + kWorkspaceAlignment)) {
  workspace = aligned(workspace, kWorkspaceAlignment);
}

bool CudnnAttentionBackwardLayout::is_possible(const AttentionShape& shape, DType dtype) {
  return dtype != DType::fp32 && shape.head_width % 8 == 0 && shape.head_width <= 128;
}

std::int64_t CudnnAttentionBackwardLayout::workspace_bytes(const AttentionShape& shape) {
  constexpr std::int64_t kAnything = std::int64_t{64} << 10;
  const std::int64_t every_head = shape.batch * shape.heads * shape.sequence * shape.head_width * 2;
  return kAnything + (shape.heads == shape.kv_heads ? 0 : 2 * every_head);
}

CudaHeadLayout::CudaHeadLayout(Carver& carver, std::int64_t tokens, std::int64_t width, std::int64_t vocab,
                               DType compute, DType gradient, bool training, std::int64_t most_logits)
    : chunks(Tiling::balanced(tokens, std::max<std::int64_t>(128, most_logits / vocab), 128)),
      logits_stride(round_up(vocab, 64)),
      normalized(carver.take_bytes(tokens * width * size_of(compute))),
      mean(carver.take<float>(tokens)),
      reciprocal_deviation(carver.take<float>(tokens)),
      token_loss(carver.take<double>(tokens)),
      logits(carver.take<float>(checked_multiply(chunks.largest(), logits_stride))) {
  if (!training) return;
  normalized_gradient = carver.take_bytes(tokens * width * size_of(compute));
  if (gradient != DType::fp32 && chunks.count() > 1) table_sum = carver.take<float>(checked_multiply(vocab, width));
  norm_scratch = carver.take_bytes(norm_backward_scratch_bytes(tokens, width, DeviceKind::cuda));
}

std::int64_t embedding_backward_scratch_bytes(std::int64_t tokens, DeviceKind device) {
  Carver carver;
  if (device == DeviceKind::cuda) {
    CudaEmbeddingBackwardLayout(carver, tokens);
  } else {
    carver.take<std::int32_t>(tokens);  // positions in order of their token
  }
  return carver.used();
}

std::int64_t norm_backward_scratch_bytes(std::int64_t tokens, std::int64_t width, DeviceKind device) {
  Carver carver;
  if (device == DeviceKind::cuda) {
    CudaNormBackwardLayout(carver, tokens, width);
  } else {
    NormBackwardLayout(carver, tokens, width);
  }
  return carver.used();
}

std::int64_t attention_backward_scratch_bytes(const AttentionShape& shape, DType dtype, DeviceKind device) {
  Carver carver;
  if (device != DeviceKind::cuda) {
    AttentionBackwardLayout(carver, shape, dtype);
  } else if (CudnnAttentionBackwardLayout::is_possible(shape, dtype)) {
    CudnnAttentionBackwardLayout(carver, shape);  // holds more than the own kernels need
  } else {
    CudaAttentionBackwardLayout(carver, shape);
  }
  return carver.used();
}

std::int64_t head_scratch_bytes(std::int64_t tokens, std::int64_t width, std::int64_t vocab, DType compute,
                                DType gradient, bool training, DeviceKind device) {
  Carver carver;
  if (device == DeviceKind::cuda) {
    CudaHeadLayout(carver, tokens, width, vocab, compute, gradient, training);
  } else {
    HeadLayout(carver, tokens, width, vocab, compute, gradient, training);
  }
  return carver.used();
}

}  // namespace tessera
