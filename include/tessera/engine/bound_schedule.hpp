#pragma once
// A schedule's operations bound to addresses on one rank. Made once, so that playing allocates nothing.

#include <span>
#include <string>
#include <vector>

#include "tessera/engine/resources.hpp"
#include "tessera/kernels/kernels.hpp"
#include "tessera/optimizer/optimizer.hpp"

namespace tessera {

/// Kernels point into the vectors next to them, so that it moves but is not copied.
struct BoundOperation {
  BoundOperation() = default;
  BoundOperation(BoundOperation&&) = default;
  BoundOperation& operator=(BoundOperation&&) = default;

  std::string name;                      ///< "gather h.3"
  std::vector<KernelArguments> kernels;  ///< that it calls, in order; before collectives and copies
  // updates: what their arguments point to
  std::vector<std::vector<void*>> states;
  std::vector<std::vector<DecayRun>> runs;
  // collectives
  std::span<std::byte> workspace;  ///< of a sum; empty if it needs none
  // load, store, norm
  struct Copy {
    const void* from = nullptr;
    void* to = nullptr;
    std::int64_t bytes = 0;
  };
  std::vector<Copy> copies;
};

struct BoundSchedule {
  IndexedVector<OperationId, BoundOperation> operations;  ///< in list order
  ReducedScalars* reduced = nullptr;                      ///< on the device, as scalars
  StepScalars* scalars = nullptr;
  StepWish* wish = nullptr;  ///< of a step of several micro-steps

  const BoundOperation& operator[](OperationId id) const { return operations[id]; }
};

/// Binds by the schedule, the memory and the optimizer's settings alone, without playing anything.
BoundSchedule bind(const StepSchedule& schedule, const Resources& resources, const Optimizer& optimizer);

}  // namespace tessera
