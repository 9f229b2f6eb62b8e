#pragma once
// The pass over activations on the host. Inputs of recomputed blocks are copied to the host once they are made, and are
// copied back ahead of their use in backward.

#include "schedule/passes/gathers.hpp"
#include "schedule/writer.hpp"

namespace tessera {

class InputCopies {
 public:
  explicit InputCopies(Writer& writer) : w_(writer) {}

  /// Decides for the compute steps of a micro-step which outputs are copied out, and when they are copied back.
  void plan(const std::vector<ComputeStep>& steps);
  /// Returns what compute step `step` waits for, so that the number of waiting copies stays within the limit.
  std::vector<Edge> waits_of(std::int64_t step) const;
  /// Emits the copies scheduled after compute step `step` (operation `done`). Outputs copied back replace earlier ones.
  void copy_after(std::int64_t step, OperationId done, IndexedVector<PartId, ValueId>& outputs);

 private:
  /// An output that is on the host from forward to backward.
  struct Trip {
    PartId part;             ///< makes it
    std::int64_t made = 0;   ///< the compute step after which it is copied out
    std::int64_t after = 0;  ///< the compute step after which it is copied back
    ValueId on_host = {};
    OperationId stored = {};
  };
  void store(Trip& trip, ValueId output);
  ValueId load(const Trip& trip, OperationId after);

  Writer& w_;
  std::vector<Trip> trips_;  ///< in the order of forward
  std::int64_t head_ = 0;    ///< its compute step
};

}  // namespace tessera
