#include "schedule/passes/state.hpp"

namespace tessera {

SegmentId write_update(Writer& writer, Parameters& parameters, Gradients& gradients, Scalars& scalars) {
  const StepSchedule& s = writer.schedule();
  writer.open_segment(SegmentRole::update, "update");
  scalars.take_wish();
  scalars.reduce();
  const ValueId clipped = scalars.clip();
  const ValueId on_host = s.offloaded_from ? scalars.store(clipped) : ValueId();
  // In forward order, so that the copies that the next step reads first are made first.
  for (const UnitId unit : s.layout.units.ids()) {
    writer.state(unit).gradient = gradients.finished(unit);
    parameters.update(unit, writer.state(unit).gradient, s.is_offloaded(unit) ? on_host : clipped);
  }
  parameters.finish_updates();
  return writer.close_segment();
}

SegmentId write_snapshot(Writer& writer, Parameters& parameters) {
  const StepSchedule& s = writer.schedule();
  writer.open_segment(SegmentRole::snapshot, "snapshot");
  for (const UnitId unit : s.layout.units.ids()) {
    Operation op = operation_of(OperationKind::store, Queue::store, unit);
    op.reads = {parameters.master(unit), parameters.moments(unit)};
    // Ranks that hold the same slice share it, so that every element is stored once: master, then the optimizer's
    // states.
    Value copy;
    copy.kind = ValueKind::snapshot;
    copy.unit = unit;
    copy.elements = std::ssize(rules_of(s.optimizer).keeps) * s.unit(unit).share(s.grid.world());
    copy.placement = {s.grid.larger_than_one({Group::shard, Group::replica}), {}, rules_of(s.optimizer).dtype};
    Storage storage = at_rest("snapshot " + s.unit(unit).name, Category::optimizer_state);
    storage.space = MemorySpace::host;
    writer.state(unit).snapshot = writer.value(writer.write(op, std::move(storage), copy)).storage;
    writer.emit(std::move(op));
  }
  return writer.close_segment();
}

}  // namespace tessera
