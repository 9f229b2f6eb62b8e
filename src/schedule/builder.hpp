#pragma once
// The builder's working state: storages by role, and the values that the operations of the open segment have made so
// far.

#include <map>
#include <optional>

#include "schedule/accumulation.hpp"
#include "schedule/gather_plan.hpp"
#include "tessera/comm/scratch.hpp"

namespace tessera {

/// Whole gradients of block units that may be in flight: one being made, one being reduced.
inline constexpr std::int64_t kGradientStaging = 2;

class Builder {
 public:
  /// Lays out the storages that outlive a segment: masters, moments, copies at rest, constants and scalars.
  Builder(StepSchedule& schedule, const SchedulePolicy& policy);

  /// True where full copies live between steps, which are gathered once before the first one.
  bool has_prologue() const;
  /// Appends the segment that gathers those copies.
  SegmentId prologue();
  /// Appends a micro-step of `kind`: forward and backward of one micro-batch, and what becomes of its gradients.
  SegmentId micro_step(const MicroStepKind& kind);
  /// Appends what is done once a step: the sum of loss and norm over the world, clip, and the updates.
  SegmentId update();
  /// Appends the forward of one micro-batch and the sum of its loss over the world.
  SegmentId evaluation();
  /// Adds the host memory that a GPU's collectives and steps pass through; once all operations are there.
  void add_host_memory();
  /// Appends the copy of the training state to the host (checkpoint.async).
  SegmentId snapshot();

 private:
  // --- building blocks (builder.cpp)
  /// Appends a storage to the schedule.
  StorageId add_storage(Storage storage);
  /// Appends a value; from now on its storage holds it. Whoever emits the operation sets its maker.
  ValueId add_value(Value value);
  /// Returns the value that a carried storage holds at this point of the open segment.
  ValueId current(StorageId storage);
  /// Declares what a carried storage holds when a segment begins.
  void set_entry(StorageId storage, const Value& value);
  /// Appends an operation to the open segment and makes it the maker of what it writes and updates.
  OperationId emit(Operation operation);
  /// Begins a segment and forgets the values of the one before.
  void open_segment(SegmentRole role, const std::string& name);
  /// Ends the open segment.
  SegmentId close_segment();
  /// Returns the set of those groups that have more than one rank.
  Groups groups(std::initializer_list<Group> list) const;
  /// True for a group of one rank, whose collectives are left out.
  bool trivial(Group group) const { return s_.grid.size(group) == 1; }
  /// Returns what a rank sends to gather or reduce-scatter `elements` over a group.
  std::int64_t wire_bytes(std::int64_t elements, DType dtype, Group group) const;
  /// Returns the algorithm of a group's collectives, which determines their scratch.
  CollectiveWay way_over(Group group) const;
  /// Gives a collective room for what it receives before it can add, for its duration.
  void add_collective_scratch(Operation& op, std::int64_t bytes);
  /// Lets `op` write `value` into a storage of its own, which ends with the segment unless it is carried.
  ValueId write_local(Operation& op, const Storage& storage, Value value);
  /// Lets `op` read a value.
  void read(Operation& op, ValueId value) const { op.reads.push_back(value); }
  /// Lets `op` replace `before` by `after` in the same storage.
  ValueId update_in_place(Operation& op, ValueId before, Value after);

  // --- parameters (build_parameters.cpp)
  /// True where compute reads the fp32 master itself: a whole master in the compute type.
  bool reads_master_directly(UnitId unit) const;
  /// Returns the unit's fp32 master as it is now.
  ValueId master(UnitId unit) { return current(master_[static_cast<std::size_t>(unit)]); }
  /// Emits the gather of a unit (a cast where the group has one rank), not before the ends of `after`.
  void emit_gather(UnitId unit, std::vector<Edge> after);
  /// Returns the full parameter that compute reads.
  ValueId whole_parameter(UnitId unit);

  // --- micro-step and evaluation (build_micro_step.cpp); kind is null for evaluation
  /// Emits the load of tokens.
  void emit_load();
  /// Emits the all-reduce of loss, norm and flags over the world.
  void emit_payload_reduction();
  /// Emits the parts' compute in the order of `steps`, with the gathers and reductions between.
  void run_compute(const std::vector<ComputeStep>& steps, const MicroStepKind* kind);
  /// Emits one part's compute, by the one of the next three that it is.
  OperationId emit_compute(const ComputeStep& step, const MicroStepKind* kind);
  /// Emits a part's forward or recompute, which writes its output and what backward needs.
  OperationId emit_forward(const ComputeStep& step);
  /// Emits a part's backward: the activations' gradient goes on in place, parameters get their contribution.
  OperationId emit_backward(const ComputeStep& step, const MicroStepKind& kind);
  /// Emits head and loss, forward and backward in one; forward alone for evaluation.
  OperationId emit_head(const ComputeStep& step, const MicroStepKind* kind);
  /// Gives a part's compute its scratch.
  void add_part_scratch(Operation& op, std::int64_t bytes);
  /// Lets `op` read the full parameters of the step's units.
  void read_parameters(Operation& op, const ComputeStep& step);
  /// Lets `op` read its part's constants.
  void read_constants(Operation& op);
  /// Emits the gathers that are planned for `position`, after operation `after` (-1: at once).
  void emit_gathers(const GatherPlan& plan, std::int64_t position, OperationId after);
  /// Returns the steps without units that need no gather: read from the master, at rest, or full since the first
  /// micro-step.
  std::vector<ComputeStep> without_resident_units(std::vector<ComputeStep> steps, const MicroStepKind* kind) const;
  /// Notes, for `plan`, the bytes that kept units save beside the strategy's formula.
  void note_gather_savings(const GatherPlan& plan);
  /// Notes the bytes that gradients send less, or more, than the formula says.
  void note_reduction_savings();

  // --- gradients (build_gradients.cpp)
  /// Notes which parts have to contribute to each unit's gradient, in backward order.
  void expect_contributions();
  /// Lets a backward write its units' gradients, or add to those that are there.
  void contribute(Operation& op, const MicroStepKind& kind);
  /// Finishes the units to which `part` was the last to contribute.
  void finish_ready_gradients(const MicroStepKind& kind, PartId part);
  /// Takes a complete gradient through reduction, accumulation and norm to the layout that the update reads.
  void finish_gradient(const MicroStepKind& kind, UnitId unit);
  /// True for a tied table whose two contributions are reduced one by one (shard.tied_reduce = twice).
  bool contributes_apart(UnitId unit) const;
  /// True where each micro-step's full gradient goes into the inner reduction at once.
  bool reduces_fresh() const;
  /// Returns the storage of a micro-batch's full gradient: shared where a collective reads it.
  Storage fresh_gradient_storage(UnitId unit) const;
  /// Adds the pieces of a unit that contributes apart; in the wire's type and region if a reduction follows.
  ValueId join_partial(UnitId unit, bool reduction_follows);
  /// Returns the storage of a sum that a collective reads next.
  Storage wire_storage(const Value& gradient) const;
  /// Emits a reduce-scatter. The sum goes into a carried storage (`into`) or a fresh one (-1); in the wire's type if
  /// another reduction follows, else as `finished`.
  ValueId reduce_scatter(ValueId gradient, Group group, bool more_to_reduce, DType finished, StorageId into);
  /// Adds a micro-step's gradient to the slots that `kind` merges, or puts it into its own; returns the sum.
  ValueId accumulate(const MicroStepKind& kind, UnitId unit, ValueId fresh, bool reduction_follows);
  /// Emits the gather of a reduced gradient, for an update of more than the rank's shard.
  ValueId gather_gradient(ValueId gradient, Group group);
  /// Keeps a finished gradient until the update.
  void make_final(UnitId unit, ValueId gradient);
  /// Emits the norms of finished gradients, all but the last `keep`, so that a reduction has time before it is
  /// measured.
  void flush_norms(std::size_t keep);
  /// Returns the fp32 sum of a unit in slot `slot` of the tree, made on first use for gradients such as `like`.
  StorageId accumulator(UnitId unit, int slot, const Value& like);

  StepSchedule& s_;
  SchedulePolicy policy_;
  StrategyRules rules_;

  // storages that live across segments
  std::vector<StorageId> master_, moments_, rest_parameter_, step_parameter_;
  std::map<std::pair<UnitId, int>, StorageId> accumulators_;
  std::map<UnitId, StorageId> final_gradient_;
  std::vector<StorageId> constants_;  ///< per ModelParts::constants
  StorageId payload_ = -1, scalars_ = -1;

  // the open segment
  std::optional<Segment> open_;
  std::map<StorageId, ValueId> current_;
  std::map<StorageId, Value> entry_;  ///< what carried storages hold at a segment's start
  std::map<UnitId, ValueId> whole_;   ///< whole copies alive in the open segment
  ValueId tokens_ = -1, activation_gradient_ = -1;
  std::vector<ValueId> activations_;                  ///< per part: its output
  std::vector<std::vector<ValueId>> saved_;           ///< per part and slot
  std::map<UnitId, std::vector<PartId>> owed_parts_;  ///< per unit: parts that still have to contribute
  std::map<UnitId, ValueId> gradient_;                ///< per unit: the micro-batch's whole gradient so far
  std::map<UnitId, std::vector<ValueId>> partial_;    ///< tied_reduce = twice: reduced pieces
  std::vector<OperationId> staged_;                   ///< last readers of block gradients, in order
  std::vector<ValueId> pending_norms_;
};

}  // namespace tessera
