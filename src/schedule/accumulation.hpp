#pragma once
// How micro-batch gradients add up over the micro-steps of one step. Deterministic: a binary counter, so that the sum
// is the fixed tree over micro-batches (a node splits at the largest power of two below its size); level j holds the
// sum of an aligned run of 2^j micro-steps. Otherwise a running sum on level 0.

#include <cstdint>
#include <vector>

namespace tessera {

/// What a micro-step does with its gradient. Micro-steps of equal kind are one segment.
struct MicroStepKind {
  bool first = false, last = false;
  std::vector<int> merged_levels;  ///< added to the fresh gradient, in this order
  int result_level = 0;            ///< where the sum is kept (not used by the last micro-step)
  bool operator==(const MicroStepKind&) const = default;
};

/// The kind of micro-step k of K.
MicroStepKind micro_step_kind(std::int64_t k, std::int64_t K, bool deterministic);

}  // namespace tessera
