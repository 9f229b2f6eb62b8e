#pragma once
// The builder's working state: storages by role, and the values that the operations of the open segment have made so
// far.

#include <map>
#include <optional>

#include "schedule/accumulation.hpp"
#include "schedule/gather_plan.hpp"
#include "schedule/rules.hpp"
#include "tessera/comm/scratch.hpp"

namespace tessera {

/// Whole gradients of block units that may be in flight: one being made, one being reduced.
inline constexpr std::int64_t kGradientStaging = 2;

class Builder {
 public:
  Builder(StepSchedule& schedule, const SchedulePolicy& policy);

  /// Whole copies that live between steps are gathered once before the first one.
  bool has_prologue() const;
  SegmentId prologue();
  SegmentId micro_step(const MicroStepKind& kind);
  SegmentId update();
  SegmentId evaluation();
  /// Host memory that a GPU's collectives and steps pass through; once all operations are there.
  void add_host_memory();
  SegmentId snapshot();

 private:
  // --- building blocks (builder.cpp)
  StorageId add_storage(Storage storage);
  ValueId add_value(Value value);
  /// The value that a carried storage holds at this point of the open segment.
  ValueId current(StorageId storage);
  /// Declares what a carried storage holds when a segment begins.
  void set_entry(StorageId storage, const Value& value);
  OperationId emit(Operation operation);
  void open_segment(SegmentRole role, const std::string& name);
  SegmentId close_segment();
  Groups groups(std::initializer_list<Group> list) const;
  bool trivial(Group group) const { return s_.grid.size(group) == 1; }
  std::int64_t wire_bytes(std::int64_t elements, DType dtype, Group group) const;
  CollectiveWay way_over(Group group) const;
  /// Room for what a collective receives before it can add, for its duration.
  void add_collective_scratch(Operation& op, std::int64_t bytes);
  ValueId write_local(Operation& op, const Storage& storage, Value value);
  void read(Operation& op, ValueId value) const { op.reads.push_back(value); }
  ValueId update_in_place(Operation& op, ValueId before, Value after);

  // --- parameters (build_parameters.cpp)
  bool reads_master_directly(UnitId unit) const;
  ValueId master(UnitId unit) { return current(master_[static_cast<std::size_t>(unit)]); }
  void emit_gather(UnitId unit, std::vector<Edge> after);
  ValueId whole_parameter(UnitId unit);

  // --- micro-step and evaluation (build_micro_step.cpp); kind is null for evaluation
  void emit_load();
  void emit_payload_reduction();
  void run_compute(const std::vector<ComputeStep>& steps, const MicroStepKind* kind);
  OperationId emit_compute(const ComputeStep& step, const MicroStepKind* kind);
  OperationId emit_forward(const ComputeStep& step);
  OperationId emit_backward(const ComputeStep& step, const MicroStepKind& kind);
  OperationId emit_head(const ComputeStep& step, const MicroStepKind* kind);
  void add_part_scratch(Operation& op, std::int64_t bytes);
  void read_parameters(Operation& op, const ComputeStep& step);
  void read_constants(Operation& op);
  void emit_gathers(const GatherPlan& plan, std::int64_t position, OperationId after);
  std::vector<ComputeStep> without_resident_units(std::vector<ComputeStep> steps, const MicroStepKind* kind) const;
  void note_gather_savings(const GatherPlan& plan);
  void note_reduction_savings();

  // --- gradients (build_gradients.cpp)
  void expect_contributions();
  void contribute(Operation& op, const MicroStepKind& kind);
  void finish_ready_gradients(const MicroStepKind& kind, PartId part);
  void finish_gradient(const MicroStepKind& kind, UnitId unit);
  bool contributes_apart(UnitId unit) const;
  bool reduces_fresh() const;
  Storage fresh_gradient_storage(UnitId unit) const;
  ValueId join_partial(UnitId unit, bool reduction_follows);
  Storage wire_storage(const Value& gradient) const;
  /// The sum goes into a carried storage (`into`) or a fresh one; in the wire's type if another reduction follows, else
  /// as `finished`.
  ValueId reduce_scatter(ValueId gradient, Group group, bool more_to_reduce, DType finished, StorageId into);
  ValueId accumulate(const MicroStepKind& kind, UnitId unit, ValueId fresh, bool reduction_follows);
  ValueId gather_gradient(ValueId gradient, Group group);
  void make_final(UnitId unit, ValueId gradient);
  void flush_norms(std::size_t keep);
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
