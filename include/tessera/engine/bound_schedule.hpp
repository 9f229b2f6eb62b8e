#pragma once
// A schedule's operations bound to addresses on one rank. Made once, so that playing allocates nothing.

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/engine/resources.hpp"
#include "tessera/model/decoder.hpp"
#include "tessera/optimizer/optimizer.hpp"

namespace tessera {

struct BoundOperation {
  std::string name;  ///< "gather h.3"
  // compute
  const ModelParts* model = nullptr;  ///< in the segment's shapes
  PartBuffers buffers;
  std::vector<void*> saved, gradients;
  std::vector<const void*> parameters, constants;
  std::vector<const float*> magnitudes;
  std::unique_ptr<bool[]> codes;
  std::unique_ptr<bool[]> gradient_adds;
  std::vector<std::pair<std::byte*, std::int64_t>> gaps;  ///< padding of freshly written gradients: address, bytes
  bool clears_sums = false;                               ///< the step's first contribution to its sums
  // collectives
  std::span<std::byte> workspace;  ///< of a sum; empty if it needs none
  // update
  struct Update {
    UpdateArguments arguments;
    std::vector<void*> states;
    std::vector<DecayRun> runs;
  };
  std::vector<Update> updates;  ///< of matrices, and of other elements
  DirectionArguments direction;
  std::vector<OrthogonalizeArguments> matrices;
  // magnitudes; gather and cast to codes
  struct Range {
    const std::byte* from = nullptr;
    std::int64_t elements = 0;
    std::int64_t* largest = nullptr;
    std::byte* codes = nullptr;
  };
  std::vector<Range> ranges;  ///< of the weights, as far as this rank has them
  // load, store; cast and slice, without a number of bytes
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
  StepWish* wish = nullptr;       ///< of a step of several micro-steps
  ExactSum* unit_sums = nullptr;  ///< the sums that norms leave after each unit; null: they are not kept
  SampleLosses sample_losses;     ///< of training

  const BoundOperation& operator[](OperationId id) const { return operations[id]; }
};

/// Binds by the schedule, the memory and the optimizer's settings alone, without playing anything.
BoundSchedule bind(const StepSchedule& schedule, const Resources& resources, const Optimizer& optimizer);

}  // namespace tessera
