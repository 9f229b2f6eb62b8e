#pragma once
// The pass over compute: forward, recompute and backward of the parts, with the gathers that they need in between and
// the gradients that they contribute.

#include <functional>
#include <map>
#include <set>
#include <string>

#include "schedule/passes/activations.hpp"
#include "schedule/passes/gathers.hpp"
#include "schedule/passes/gradients.hpp"
#include "schedule/passes/parameters.hpp"

namespace tessera {

class Compute {
 public:
  /// Adds the storages of constants, which parts read and no step changes.
  Compute(Writer& writer, Parameters& parameters);

  /// Returns the units that a micro-step gathers before it computes if it gathers one unit ahead; none without
  /// prefetching.
  std::vector<UnitId> units_gathered_first() const;
  /// Appends a micro-step of `kind`: forward and backward of one micro-batch, and the handling of its gradients.
  /// `before` is the kind of the micro-step before, see Gradients::begin.
  SegmentId write_micro_step(const MicroStepKind& kind, const MicroStepKind& before, Gradients& gradients,
                             Scalars& scalars);
  /// Appends the forward of one micro-batch and the sum of its loss over the world.
  SegmentId write_evaluation(Scalars& scalars);
  /// Appends the forward of a chunk of prompts, or of one token of each sequence: caches grow, logits go to the host.
  SegmentId write_generation(SegmentRole role);

 private:
  /// Opens a segment, emits the load of tokens, and forgets the segment before.
  void begin(SegmentRole role, const std::string& name);
  /// Writes the forward of all parts, once; `write_head` writes the head's.
  void write_forward(const std::function<OperationId(const ComputeStep&)>& write_head);
  /// Plans when the units that are not there are gathered. `hands_on`: the next segment begins as this one does.
  GatherPlan plan(std::vector<ComputeStep> steps, bool after_first_micro_step, bool hands_on,
                  SchedulePolicy::Prefetch prefetch) const;
  /// Emits the gathers that are planned for `position`, after operation `after` (-1: at once).
  void emit_gathers(const GatherPlan& plan, std::int64_t position, OperationId after);
  /// Emits the slices that stay of those units whose full copy is read for the last time by compute step `step`,
  /// operation `after`. Returns the last of these slices, which ends those copies, or `after` if there are none.
  OperationId emit_slices(const GatherPlan& plan, std::int64_t step, OperationId after);
  /// Returns a part's operation that reads the step's units in full and the part's constants, after `inputs`.
  Operation compute(const ComputeStep& step, std::vector<ValueId> inputs);
  /// Returns whether a part reads the positions that come with the tokens; an embedding reads the whole input.
  bool reads_positions(const Part& part) const;
  /// Emits a part's forward or recompute, which writes its output and what backward needs.
  OperationId forward(const ComputeStep& step);
  /// Emits a part's backward: the activations' gradient goes on in place, parameters get their contribution.
  OperationId backward(const ComputeStep& step, Gradients& gradients);
  /// Emits head and loss, forward and backward in one; forward alone where there are no gradients.
  OperationId head(const ComputeStep& step, bool starts_sums, Gradients* gradients, Scalars& scalars);
  /// Returns a name for a micro-step's segment, such as "micro-step merging 2", that no other segment has.
  std::string name_of_micro_step(const MicroStepKind& kind, const MicroStepKind& before);
  /// Emits the copy of what the head made to the host, where it stays until the next such copy.
  void copy_to_host(ValueId made, StorageId& on_host, const char* use);
  /// Emits the head's logits and their copy to the host.
  OperationId logits(const ComputeStep& step);
  /// Returns the storage of an attention part's cache.
  StorageId cache(const Part& part, PartId id);
  /// Gives a part's operation its scratch, and emits it.
  OperationId emit(Operation op, std::int64_t scratch_bytes);
  /// Notes, for `plan`, the bytes that kept units save compared with the strategy's formula.
  void note_savings(const GatherPlan& plan);

  Writer& w_;
  Parameters& parameters_;
  std::vector<StorageId> constants_;    ///< per ModelParts::constants
  std::set<std::string> names_;         ///< of micro-steps
  std::map<PartId, StorageId> caches_;  ///< generation: keys and values, from play to play
  StorageId logits_on_host_, losses_on_host_;
  InputCopies copies_;

  // the open segment
  const ModelParts* model_ = nullptr;  ///< in its shapes
  ValueId tokens_, activation_gradient_;
  std::vector<Edge> next_after_;                       ///< what the next part waits for in addition to its data
  IndexedVector<PartId, ValueId> activations_;         ///< outputs
  IndexedVector<PartId, std::vector<ValueId>> saved_;  ///< by slot
};

}  // namespace tessera
