// The pass over state on the host: updates the masters there and copies parameters back.

#include "schedule/passes/parameters.hpp"

namespace tessera {

namespace {

Operation on_bucket(OperationKind kind, Queue queue, UnitId unit, const Bucket& bucket) {
  Operation op = operation_of(kind, queue, unit);
  op.bucket = bucket;
  return op;
}

/// Returns a bucket of a slice, as a buffer holds it.
Value part_of(Value slice, const Bucket& bucket) {
  slice.elements = bucket.count;
  slice.first = bucket.first;
  return slice;
}

}  // namespace

std::vector<Bucket> Parameters::buckets_of(UnitId unit) const {
  const std::int64_t elements = w_.schedule().state[unit].elements, most = w_.policy().offload_bucket;
  std::vector<Bucket> buckets;
  for (std::int64_t first = 0; first < elements; first += most)
    buckets.push_back({first, std::min(most, elements - first)});
  return buckets;
}

void Parameters::update_on_host(UnitId unit, ValueId gradient, ValueId clipped) {
  for (const Bucket& bucket : buckets_of(unit)) {
    Operation update = on_bucket(OperationKind::update, Queue::host, unit, bucket);
    update.reads = {gradient, clipped};
    for (const ValueId before : {master(unit), moments(unit)}) {
      Value after = w_.value(before);
      after.version = 1;
      w_.update(update, before, after);
    }
    const ValueId cast = write_cast(update);
    w_.emit(std::move(update));
    bring_up(unit, bucket, cast);
  }
  find_magnitudes(unit);
  gather_what_stays(unit);
}

void Parameters::bring_up_first(UnitId unit, const Bucket& bucket) {
  Operation op = on_bucket(OperationKind::cast, Queue::host, unit, bucket);
  op.reads = {master(unit)};
  const ValueId cast = write_cast(op);
  if (cast) w_.emit(std::move(op));
  bring_up(unit, bucket, cast);
}

ValueId Parameters::write_cast(Operation& op) {
  if (loaded_.dtype == sharded_.dtype) return {};
  if (const StorageId whole = units_[op.unit].on_host) return write_bucket(op, whole, loaded_);
  Value value = part_of(w_.value(master(op.unit)), op.bucket);
  value.kind = ValueKind::parameter;
  value.placement = loaded_;
  return parameter_buffers_.write(op, value);
}

void Parameters::bring_up(UnitId unit, const Bucket& bucket, ValueId cast) {
  OfUnit& of = units_[unit];
  if (is_loaded_to_gather(of)) return;
  if (!of.shard_rests && bucket.first == 0)
    of.shard = w_.add(local("shard " + w_.schedule().unit(unit).name, Category::parameters), 0);
  const OperationId loaded = load(unit, bucket, cast ? cast : master(unit), {});
  if (cast) parameter_buffers_.read_by(loaded, cast);
}

void Parameters::load_slice(UnitId unit, std::vector<Edge> after) {
  OfUnit& of = units_[unit];
  const bool stays = is_full(of) && of.for_a_step && w_.role() == SegmentRole::micro_step;
  of.shard =
      stays ? of.for_a_step : w_.add(local("shard " + w_.schedule().unit(unit).name, Category::gathered_units), 0);
  const ValueId source = of.on_host ? w_.current(of.on_host) : master(unit);
  load(unit, {0, w_.value(source).elements}, source, std::move(after));
}

OperationId Parameters::load(UnitId unit, const Bucket& bucket, ValueId source, std::vector<Edge> after) {
  Operation op = on_bucket(OperationKind::load, Queue::load, unit, bucket);
  op.reads = {source};
  op.after = std::move(after);
  write_bucket(op, units_[unit].shard, loaded_);
  return w_.emit(std::move(op));
}

ValueId Parameters::write_bucket(Operation& op, StorageId storage, const Placement& placement) {
  Value slice = w_.value(master(op.unit));
  slice.kind = ValueKind::parameter;
  slice.maker = {};
  slice.placement = placement;
  // Only state at rest is there already, but not before the first step.
  const bool is_there = w_.schedule().storage(storage).always_live && w_.role() != SegmentRole::prologue;
  slice.version = w_.role() == SegmentRole::update ? 1 : 0;
  w_.enlarge(storage, slice.bytes());
  if (op.bucket.first == 0 && !is_there) return w_.write(op, storage, slice);
  return w_.update(op, w_.current(storage), slice);
}

}  // namespace tessera
