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
  for (const UnitId unit : s.layout.units.ids())
    parameters.update(unit, gradients.finished(unit), s.is_offloaded(unit) ? on_host : clipped);
  parameters.finish_updates();
  return writer.close_segment();
}

SegmentId write_snapshot(Writer& writer, Parameters& parameters) {
  const StepSchedule& s = writer.schedule();
  writer.open_segment(SegmentRole::snapshot, "snapshot");
  for (const UnitId unit : s.layout.units.ids()) {
    Operation op = operation_of(OperationKind::store, Queue::store, unit);
    op.reads = {parameters.master(unit), parameters.moments(unit)};
    // Ranks that hold the same slice share it, so that every element is stored once: master, then both moments.
    Value copy;
    copy.kind = ValueKind::snapshot;
    copy.unit = unit;
    copy.dtype = DType::fp32;
    copy.elements = 3 * s.unit(unit).share(s.grid.world());
    copy.shard = s.grid.larger_than_one({Group::shard, Group::replica});
    Storage storage = at_rest("snapshot " + s.unit(unit).name, Category::optimizer_state);
    storage.space = MemorySpace::host;
    writer.write(op, std::move(storage), copy);
    writer.emit(std::move(op));
  }
  return writer.close_segment();
}

}  // namespace tessera
