#include "tessera/kernels/gpu_attention.hpp"

#include "tessera/base/format.hpp"

namespace tessera {

std::string cudnn_obstacle(const AttentionShape& shape, DType dtype, bool has_dropout) {
  if (shape.has_window()) return "it has no window here";
  if (has_dropout) return "masks of dropout are our own";
  if (dtype == DType::fp32) return "fp32 storage is not bf16 or fp16";
  if (shape.head_width % 8 != 0 || shape.head_width > 128)
    return fmt::format("heads of {} are not multiples of 8 up to 128", shape.head_width);
  // Its backward is known to be wrong for one token.
  return shape.sequence < 2 ? "sequences have one token" : "";
}

GpuAttention possible_attention(GpuAttention wished, const AttentionShape& shape, DType dtype, bool has_dropout) {
  return cudnn_obstacle(shape, dtype, has_dropout).empty() ? wished : GpuAttention::own;
}

}  // namespace tessera
