#include "schedule/passes/state.hpp"

#include <map>
#include <set>

#include "schedule/passes/matrices.hpp"

namespace tessera {

SegmentId write_update(Writer& writer, Parameters& parameters, Gradients& gradients, Scalars& scalars) {
  const StepSchedule& s = writer.schedule();
  writer.open_segment(SegmentRole::update, "update");
  scalars.take_wish();
  scalars.reduce();
  const ValueId clipped = scalars.clip();
  if (s.offloaded_from) scalars.store(clipped);
  // In forward order, so that the copies that the next step reads first are made first. While a unit's matrices are
  // being exchanged, those of its neighbours are worked on.
  Matrices matrices(writer, parameters.sharded());
  constexpr std::int64_t kAhead = 2;  // units between a direction and its update
  const auto unit_at = [&](std::int64_t i) {
    const bool is_here = i >= 0 && i < std::ssize(s.layout.units) && !s.is_offloaded(UnitId(0) + i);
    return is_here ? UnitId(0) + i : UnitId();
  };
  for (std::int64_t i = 0; i < std::ssize(s.layout.units) + kAhead; ++i) {
    if (const UnitId unit = unit_at(i); unit && s.unit(unit).trains) {
      writer.state(unit).gradient = gradients.finished(unit);
      matrices.direct(unit, writer.state(unit).gradient, clipped, parameters.moments(unit));
    }
    if (const UnitId unit = unit_at(i - 1)) matrices.orthogonalize(unit);
    if (const UnitId unit = unit_at(i - kAhead))
      parameters.update(unit, writer.state(unit).gradient, clipped, matrices.orthogonal(unit));
  }
  matrices.note_saving();
  return writer.close_segment();
}

SegmentId write_host_updates(Writer& writer, Parameters& parameters, Gradients& gradients, Scalars& scalars) {
  const StepSchedule& s = writer.schedule();
  writer.open_segment(SegmentRole::update, "updates on the host");
  std::set<UnitId> done;
  for (const Part& part : s.model.parts) {
    for (const UnitId unit : s.layout.units_of(part.tensors)) {
      if (!s.is_offloaded(unit) || !done.insert(unit).second) continue;
      writer.state(unit).gradient = gradients.finished(unit);
      parameters.update(unit, writer.state(unit).gradient, scalars.stored(), {});
    }
  }
  return writer.close_segment();
}

SegmentId write_with_updates(Writer& writer, SegmentId updates, SegmentId micro_step) {
  const StepSchedule& s = writer.schedule();
  const Segment apply = s.segments[updates], compute = s.segments[micro_step];
  std::map<StorageId, OperationId> last;  // of the updates, by what they touch
  for (const OperationId id : apply.operations()) {
    for (const ValueId v : touched_values(s.operation(id))) last[s.value(v).storage] = id;
  }
  writer.open_segment(SegmentRole::micro_step, compute.name + " after updates");
  std::map<OperationId, OperationId> copies;
  OperationId next = apply.first;
  for (const OperationId id : compute.operations()) {
    for (const ValueId v : touched_values(s.operation(id))) {
      const auto needed = last.find(s.value(v).storage);
      for (; needed != last.end() && next <= needed->second; ++next) writer.emit_copy(next, copies);
    }
    writer.emit_copy(id, copies);
  }
  TESSERA_ASSERT(next > apply.last(), "forward reads every unit");
  return writer.close_segment();
}

SegmentId write_snapshot(Writer& writer, Parameters& parameters) {
  const StepSchedule& s = writer.schedule();
  writer.open_segment(SegmentRole::snapshot, "snapshot");
  for (const UnitId unit : s.layout.trained()) {
    Operation op = operation_of(OperationKind::store, Queue::store, unit);
    op.reads = {parameters.master(unit), parameters.moments(unit)};
    // Ranks that hold the same slice share it, so that every element is stored once: the master, then the optimizer's
    // states.
    const Value copy =
        value_of(ValueKind::snapshot, {s.grid.larger_than_one({Group::shard, Group::replica}), {}, s.policy.moments},
                 snapshot_elements(s.policy.optimizer, s.policy.moments, s.unit(unit), s.grid.world()), unit);
    Storage storage = in_host_memory("snapshot", at_rest(s.unit(unit).name, Category::optimizer_state));
    writer.state(unit).snapshot = writer.value(writer.write(op, std::move(storage), copy)).storage;
    writer.emit(std::move(op));
  }
  return writer.close_segment();
}

}  // namespace tessera
