#pragma once
// The least work of a kernel call. FLOPs are those of matmuls; for attention, those of the visible half. Bytes are
// those that must come from memory or go there: each input once, each output once, accumulated ones twice.

#include "tessera/kernels/arguments.hpp"

namespace tessera {

struct KernelCost {
  double flops = 0, bytes = 0;
};

/// Returns the bytes of `count` elements.
double bytes_of(std::int64_t count, DType dtype);

KernelCost cost_of(const EmbeddingForward& a);
/// If it adds, only rows of occurring tokens are touched: the expected number for uniform draws.
KernelCost cost_of(const EmbeddingBackward& a);
KernelCost cost_of(const NormForward& a);
KernelCost cost_of(const NormBackward& a);
KernelCost cost_of(const LinearForward& a);
KernelCost cost_of(const LinearBackward& a);
KernelCost cost_of(const AttentionForward& a);
KernelCost cost_of(const AttentionBackward& a);
/// Counts as if the cache were full.
KernelCost cost_of(const AttentionCached& a);
KernelCost cost_of(const RotaryArguments& a);
KernelCost cost_of(const GluForward& a);
KernelCost cost_of(const GluBackward& a);
/// Counts one matmul, or three with gradients, and counts the logits as if they never left the chip.
KernelCost cost_of(const HeadArguments& a);
KernelCost cost_of(const UpdateArguments& a);
KernelCost cost_of(const DirectionArguments& a);
KernelCost cost_of(const OrthogonalizeArguments& a);

}  // namespace tessera
