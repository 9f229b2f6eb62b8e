#pragma once
// What a call of a kernel does at least. FLOPs are those of matrix products, of attention the visible half. Bytes are
// those that must come from memory or go there: each input once, each output once, what is added to twice.

#include "tessera/kernels/arguments.hpp"

namespace tessera {

struct KernelCost {
  double flops = 0, bytes = 0;
};

/// Bytes of `count` elements.
double bytes_of(std::int64_t count, DType dtype);

KernelCost cost_of(const EmbeddingForward& a);
/// Where it adds, only rows of tokens that occur are touched: as many as tokens drawn evenly leave one expect.
KernelCost cost_of(const EmbeddingBackward& a);
KernelCost cost_of(const NormForward& a);
KernelCost cost_of(const NormBackward& a);
KernelCost cost_of(const LinearForward& a);
KernelCost cost_of(const LinearBackward& a);
KernelCost cost_of(const AttentionForward& a);
KernelCost cost_of(const AttentionBackward& a);
KernelCost cost_of(const RotaryArguments& a);
KernelCost cost_of(const SwigluForward& a);
KernelCost cost_of(const SwigluBackward& a);
/// One product, or with gradients three. The logits count as if they never left the chip.
KernelCost cost_of(const HeadArguments& a, bool training);
KernelCost cost_of(const AdamWArguments& a);

}  // namespace tessera
