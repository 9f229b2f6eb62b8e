#pragma once
// Writes a schedule: storages, values, operations, segments. It knows no strategy; the passes decide what is written.

#include <map>
#include <optional>

#include "tessera/comm/scratch.hpp"
#include "tessera/schedule/schedule.hpp"

namespace tessera {

// Storages by how long they hold something. Their size is that of the first value that is put there.

/// Holds state for as long as the run lives.
Storage at_rest(std::string name, Category category, RegionKind region = RegionKind::at_rest);
/// Holds a value from segment to segment, for a part of the step.
Storage carried(std::string name, Category category, RegionKind region = RegionKind::private_);
/// Holds a value within a segment.
Storage local(std::string name, Category category, RegionKind region = RegionKind::private_);
/// Returns the same storage in the host's memory; its use stands before its name.
Storage in_host_memory(const std::string& use, Storage storage);

/// Returns a value that no unit has, and of a part if one is given.
Value value_of(ValueKind kind, DType dtype, std::int64_t elements, PartId part = {});
/// Returns a value of a unit.
Value value_of(ValueKind kind, const Placement& placement, std::int64_t elements, UnitId unit);

/// Returns an operation of a unit (-1: of none) that touches nothing yet.
Operation operation_of(OperationKind kind, Queue queue, UnitId unit);

class Writer {
 public:
  explicit Writer(StepSchedule& schedule) : schedule_(schedule) {}

  const StepSchedule& schedule() const { return schedule_; }
  const SchedulePolicy& policy() const { return schedule_.policy; }
  const Value& value(ValueId id) const { return schedule_.value(id); }
  /// Returns the notes on a unit's state, to be filled in.
  UnitState& state(UnitId unit) { return schedule_.state[unit]; }

  // --- storages
  StorageId add(Storage storage);
  StorageId add(Storage storage, std::int64_t bytes);
  /// Adds a storage that holds `entry` when a segment begins.
  StorageId add(Storage storage, const Value& entry);
  /// Enlarges a storage to at least `bytes`.
  void enlarge(StorageId storage, std::int64_t bytes);
  /// Lets the storage of a local value keep it for later segments.
  StorageId carry(ValueId value);

  // --- segments
  void open_segment(SegmentRole role, const std::string& name);
  SegmentId close_segment();
  SegmentRole role() const { return open_->role; }
  /// Returns whether an operation was emitted in the open segment.
  bool is_in_segment(OperationId id) const { return id && id >= open_->first; }

  // --- values
  /// Returns what a storage holds at this point of the open segment.
  ValueId current(StorageId storage);
  /// Returns whether the open segment has put something there or found it.
  bool holds(StorageId storage) const { return current_.contains(storage); }
  /// Lets `op` write `value` into an existing storage, or into a new one.
  ValueId write(Operation& op, StorageId storage, Value value);
  ValueId write(Operation& op, Storage storage, Value value);
  /// Lets `op` replace `before` by `after` in the same storage.
  ValueId update(Operation& op, ValueId before, Value after);
  /// Gives `op` so many bytes of scratch for its duration; none if the number is 0.
  void add_scratch(Operation& op, const std::string& name, Category category, std::int64_t bytes);

  // --- operations
  /// Appends an operation to the open segment and makes it the maker of what it writes and updates.
  OperationId emit(Operation operation);
  /// Appends a copy of another segment's operation, which takes what the open segment holds and waits for the `copies`
  /// of what the original waits for; adds it to them.
  void emit_copy(OperationId original, std::map<OperationId, OperationId>& copies);
  /// Returns the value that a collective or a slice makes of another, as yet without a storage.
  Value redistributed(ValueId source, const Redistribution& step) const;
  /// Emits a collective that makes `result` from `source`: in the source's storage if it is an all-reduce, otherwise in
  /// `into`. It reads `with` too, if that is given.
  ValueId emit_collective(ValueId source, const Redistribution& step, Queue queue, Value result, StorageId into,
                          std::vector<Edge> after = {}, ValueId with = {});
  /// Returns the bytes that each rank sends to gather or reduce-scatter `elements` over a group.
  std::int64_t wire_bytes(std::int64_t elements, DType dtype, Group group) const;

  /// Notes communication that the strategy's formula counts but the schedule avoids.
  void add_saving(Saving saving) { schedule_.savings.push_back(std::move(saving)); }
  /// Does the same for loads of parameters, which copy_terms() counts.
  void add_copy_saving(Saving saving) { schedule_.copy_savings.push_back(std::move(saving)); }
  /// Adds memory that lives as long as the run, unless it has no bytes.
  StorageId reserve(Reserved which, std::int64_t bytes);
  /// Adds the sums of a step, which hold `entry` when a segment begins.
  StorageId reserve_sums(const Value& entry);
  /// Adds the host memory that a GPU's collectives and steps pass through, once all operations have been added.
  void add_host_memory();

 private:
  ValueId add_value(StorageId storage, Value value);
  CollectiveAlgorithm algorithm_over(Group group) const;

  StepSchedule& schedule_;
  std::optional<Segment> open_;
  std::map<StorageId, ValueId> current_;
  std::map<StorageId, Value> entry_;  ///< what carried storages hold at a segment's start
};

}  // namespace tessera
