#pragma once
// Implementations of attention. Tensor cores (mma.sync) for 16-bit storage and heads of up to 128; plain fp32
// arithmetic for everything else (fp32 storage, heads of up to 256). Attention over a cache has its own kernel.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tessera/kernels/arguments/attention.hpp"

namespace tessera {

inline constexpr std::int64_t kWidestHead = 256, kWidestTensorCoreHead = 128;

void attention_forward_by_tensor_cores(cudaStream_t stream, const AttentionForward& a);
void attention_forward_plain(cudaStream_t stream, const AttentionForward& a);

/// Computes gradients from delta[batch, heads, sequence] = dot(output, output_gradient) of each row.
void attention_backward_by_tensor_cores(cudaStream_t stream, const AttentionBackward& a, const float* delta);
void attention_backward_plain(cudaStream_t stream, const AttentionBackward& a, const float* delta);

/// Takes new keys and values into the cache, then attends to it; heads of up to 256.
void attention_over_cache(cudaStream_t stream, const AttentionCached& a);

}  // namespace tessera
