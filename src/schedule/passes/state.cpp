#include "schedule/passes/state.hpp"

#include "schedule/passes/matrices.hpp"

namespace tessera {

SegmentId write_update(Writer& writer, Parameters& parameters, Gradients& gradients, Scalars& scalars) {
  const StepSchedule& s = writer.schedule();
  writer.open_segment(SegmentRole::update, "update");
  scalars.take_wish();
  scalars.reduce();
  const ValueId clipped = scalars.clip();
  const ValueId on_host = s.offloaded_from ? scalars.store(clipped) : ValueId();
  // In forward order, so that the copies that the next step reads first are made first. While a unit's matrices are
  // being exchanged, those of its neighbours are worked on.
  Matrices matrices(writer, parameters.sharded());
  constexpr std::int64_t kAhead = 2;  // units between a direction and its update
  const auto unit_at = [&](std::int64_t i) {
    return i >= 0 && i < std::ssize(s.layout.units) ? UnitId(0) + i : UnitId();
  };
  for (std::int64_t i = 0; i < std::ssize(s.layout.units) + kAhead; ++i) {
    if (const UnitId unit = unit_at(i)) {
      writer.state(unit).gradient = gradients.finished(unit);
      matrices.direct(unit, writer.state(unit).gradient, clipped, parameters.moments(unit));
    }
    if (const UnitId unit = unit_at(i - 1)) matrices.orthogonalize(unit);
    if (const UnitId unit = unit_at(i - kAhead)) {
      parameters.update(unit, writer.state(unit).gradient, s.is_offloaded(unit) ? on_host : clipped,
                        matrices.orthogonal(unit));
    }
  }
  matrices.note_saving();
  return writer.close_segment();
}

SegmentId write_snapshot(Writer& writer, Parameters& parameters) {
  const StepSchedule& s = writer.schedule();
  writer.open_segment(SegmentRole::snapshot, "snapshot");
  for (const UnitId unit : s.layout.units.ids()) {
    Operation op = operation_of(OperationKind::store, Queue::store, unit);
    op.reads = {parameters.master(unit), parameters.moments(unit)};
    // Ranks that hold the same slice share it, so that every element is stored once: the master, then the optimizer's
    // states.
    Value copy;
    copy.kind = ValueKind::snapshot;
    copy.unit = unit;
    const std::int64_t world = s.grid.world();
    copy.elements = s.unit(unit).share(world) + state_elements(s.optimizer, s.unit(unit), world);
    copy.placement = {s.grid.larger_than_one({Group::shard, Group::replica}), {}, rules_of(s.optimizer).dtype};
    Storage storage = at_rest("snapshot " + s.unit(unit).name, Category::optimizer_state);
    storage.space = MemorySpace::host;
    writer.state(unit).snapshot = writer.value(writer.write(op, std::move(storage), copy)).storage;
    writer.emit(std::move(op));
  }
  return writer.close_segment();
}

}  // namespace tessera
