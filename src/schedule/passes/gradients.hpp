#pragma once
// The pass over gradients. A unit's gradient is contributed by backward, waits between micro-steps, is measured for the
// norm and read by the update. Each of these has a placement, and redistribute() gives what lies between two of them.
// The gradients that the embedding's backward finishes are reduced while the next micro-step computes.

#include "schedule/accumulation.hpp"
#include "schedule/passes/scalars.hpp"

namespace tessera {

/// Full gradients of block units that may be in flight: one being made, one being reduced.
inline constexpr std::int64_t kGradientStaging = 2;

class Gradients {
 public:
  /// `updated` is the placement of masters and moments; the update needs its gradients in the same placement.
  Gradients(Writer& writer, const Placement& updated, Scalars& scalars);

  /// Returns how many full gradients of block units may be in flight; 0: no limit.
  std::int64_t limit() const { return reduces_at_once() ? kGradientStaging : 0; }
  /// Returns whether a micro-step leaves its last gradients to the next one to be reduced.
  bool defers() const { return accumulates() && reduces_at_once(); }
  /// Begins a micro-step: notes which parts have to contribute to each unit's gradient. `before` is the kind of the
  /// previous micro-step, which matters if that one defers().
  void begin(const MicroStepKind& kind, const MicroStepKind& before);
  /// Emits the reductions that the previous micro-step has deferred.
  void reduce_deferred();
  /// Emits the sums of the deferred gradients. The head begins after them because it makes gradients of the same units.
  void add_deferred(std::vector<Edge>& before_head);
  /// Lets a backward write its units' gradients, or add to those that are there.
  void contribute(Operation& op);
  /// Finishes the units to which `part` was the last to contribute.
  void finish_ready(PartId part);
  /// Emits sums over micro-steps and norms of reduced gradients, all but the last `keep` of each, so that a reduction
  /// has time before compute waits for it.
  void sum_and_measure_all_but(std::size_t keep);
  /// Returns the gradient that the update of a unit reads.
  ValueId finished(UnitId unit) { return w_.current(finished_.at(unit)); }
  /// Notes the bytes that gradients send less than the strategy's formula says.
  void note_savings() const;

 private:
  bool accumulates() const { return w_.policy().accumulation > 1; }
  /// Returns whether each micro-step's full gradient enters the inner reduction at once.
  bool reduces_at_once() const { return !waiting_.shard.empty(); }
  /// Returns whether the gradient of a micro-step of this kind is the first of its sum and waits for the next.
  bool begins_sum(const MicroStepKind& kind) const { return accumulates() && !kind.last && kind.merged_slots.empty(); }
  /// Returns whether the parts of this micro-step add to the running sum itself what they make.
  bool adds_in_backward() const;
  /// Returns the placement in which the norm reads a gradient: complete, each element on one rank.
  Placement measured(const Placement& gradient) const;
  /// Returns whether the last part to contribute is the embedding, after which no compute is left to hide a reduction.
  bool is_deferred(UnitId unit) const;
  /// Returns whether a finished sum is next read by a collective, which needs its own type and shared memory.
  bool goes_on_wire(const Placement& sum) const;
  /// Emits the collectives from a gradient's placement to another. The result goes into `slot` of the unit's sum (-1:
  /// into a separate storage).
  ValueId bring(ValueId gradient, const Placement& to, int slot = -1);
  /// Takes a complete gradient of a micro-step to where it waits between micro-steps.
  void finish(UnitId unit);
  /// Takes it from there to the sum over micro-steps and, after the last, to the update.
  void sum(UnitId unit, ValueId gradient);
  /// Emits the copy of a finished gradient to the host, where its update reads it. The norm only scales it, so the copy
  /// need not wait for that.
  ValueId store(ValueId gradient);
  /// Adds the gradient of a micro-step of this kind to the slots that are merged, or puts it into its own slot. Returns
  /// the sum.
  ValueId accumulate(UnitId unit, ValueId gradient, const MicroStepKind& kind);
  /// Returns the fp32 sum of a unit in slot `slot` of the tree, made on first use for gradients such as `like`.
  StorageId accumulator(UnitId unit, int slot, const Value& like);

  Writer& w_;
  Scalars& scalars_;
  Placement contributed_;  ///< as backward makes it: full, partial over the inner and the outer group
  Placement waiting_;      ///< between micro-steps
  Placement updated_;

  std::map<std::pair<UnitId, int>, StorageId> accumulators_;
  std::map<UnitId, StorageId> finished_;
  std::map<UnitId, StorageId> pending_;  ///< full gradients between two micro-steps

  // the open micro-step
  MicroStepKind kind_, before_;
  std::map<UnitId, std::vector<PartId>> contributors_;  ///< parts that still have to contribute
  std::map<UnitId, ValueId> gradient_;                  ///< the micro-batch's full gradient so far
  std::vector<OperationId> reduced_by_;                 ///< readers of full gradients of block units, in order
  std::vector<std::pair<UnitId, ValueId>> unsummed_;    ///< being reduced
  std::vector<ValueId> unmeasured_;
  std::vector<std::pair<UnitId, ValueId>> late_;  ///< deferred by the previous micro-step, reduced here
};

}  // namespace tessera
