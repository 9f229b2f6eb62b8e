#pragma once
// The kernel calls of one optimizer step, counted from its schedule. All blocks have the same shapes, so the parts of
// block 0 stand for those of every block.

#include <cstdint>
#include <vector>

#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// One direction of a part.
struct PartWork {
  OperationKind kind = OperationKind::forward;  ///< forward, recompute or backward
  PartId part;                                  ///< of block 0 if there are blocks
  bool writes_output = false;                   ///< a recompute may leave it out
  std::vector<bool> gradient_adds;              ///< backward, per tensor: as PartBuffers::gradient_adds
  std::int64_t count = 0;                       ///< times per step
};

/// Updates are by the optimizer: of matrices that it needs whole, or of everything else.
enum class FlatKind : std::uint8_t { cast, add, square_sum, update, update_matrices, direction, orthogonalize };

/// Element-wise work on a stretch of a flat parameter.
struct FlatWork {
  FlatKind kind = FlatKind::cast;
  std::int64_t elements = 0;
  DType from = DType::fp32;  ///< dtype read (add: the other operand is `to`; updates and direction: the gradient)
  DType to = DType::fp32;    ///< dtype written (updates: of the copy; fp32: none)
  std::int64_t rows = 0, columns = 0;  ///< orthogonalize
  std::int64_t count = 0;              ///< times per step
};

/// In the order of their first appearance in the step.
struct KernelWork {
  std::vector<PartWork> parts;
  std::vector<FlatWork> flat;
};

/// Counts a step's plays, with all micro-steps, on the first member of each group. Zeros written into padding are left
/// out: at most 63 elements per tensor, 63 rows per table.
KernelWork kernel_work(const StepSchedule& schedule);

}  // namespace tessera
