#pragma once
// Who computes attention on a GPU: decided by shape and options alone, so that a plan needs no GPU.

#include <cstdint>
#include <string>

#include "tessera/kernels/arguments/attention.hpp"

namespace tessera {

/// Whose kernels. Where cuDNN is not at hand, Tessera's own take its place, and need less scratch.
enum class GpuAttention : std::uint8_t {
  own,                 ///< Tessera's
  cudnn,               ///< its backward adds up query gradients in whatever order
  deterministic_cudnn  ///< its backward keeps the gradients of all scores, and adds them up in one order
};

/// Returns why cuDNN is not given an attention; empty if it is.
std::string cudnn_obstacle(const AttentionShape& shape, DType dtype, bool has_dropout);
/// Returns `wished`, or own where cuDNN is not given the attention.
GpuAttention possible_attention(GpuAttention wished, const AttentionShape& shape, DType dtype,
                                bool has_dropout = false);

}  // namespace tessera
