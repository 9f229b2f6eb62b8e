#pragma once
// How micro-batch gradients add up over the micro-steps of one step. The deterministic way is a binary counter, so that
// the sum is the fixed tree over micro-batches (a node splits at the largest power of two below its size). The other
// way is a running sum in slot 0.
//
// Sums wait in floor(log2 K) slots. K is a row of blocks, one for each of its set bits, the largest first. Within a
// block of 2^b micro-steps, slot j holds the sum of an aligned run of 2^j. When the block ends, its slots are folded
// into the topmost of them, b - 1, because the smaller blocks that follow never reach it. The last block needs no slot
// for its own sum, since everything is folded into the gradient of the last micro-step.

#include <cstdint>
#include <vector>

namespace tessera {

/// What a micro-step does with its gradient. Micro-steps of equal kind are one segment.
struct MicroStepKind {
  bool first = false, last = false;
  std::vector<int> merged_slots;  ///< added to the fresh gradient, in this order
  int result_slot = 0;            ///< where the sum is kept: a fresh slot, or in place of the slot that was merged last
  /// Returns whether the sum takes the slot of one that was merged: a block that is not the last one ends.
  bool ends_block() const { return !merged_slots.empty() && merged_slots.back() == result_slot; }
  bool operator==(const MicroStepKind&) const = default;
};

/// Returns the kind of micro-step k of K.
MicroStepKind micro_step_kind(std::int64_t k, std::int64_t K, bool deterministic);

}  // namespace tessera
