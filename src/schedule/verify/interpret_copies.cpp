// The interpreter's rules for copies between device and host (tokens, snapshots, offloaded state in buckets), and for
// parameters that are gathered, cast or cut to the slices that stay.

#include "schedule/verify/interpreter.hpp"

namespace tessera {

namespace {

bool copies_activation(const StepSchedule& schedule, const Operation& op) {
  return op.writes.size() == 1 && schedule.value(op.writes[0]).kind == ValueKind::activation;
}

}  // namespace

/// Demands that an operation can reach what it touches: the host's queue reaches the host, loads and stores both sides,
/// and all others the device.
void Interpreter::need_space(const Operation& op) {
  const auto need = [&](ValueId v, MemorySpace space) {
    demand(schedule_.storage_of(v).space == space,
           fmt::format("touches {}, which lies on the {}", name_of_value(schedule_, v),
                       name_of(schedule_.storage_of(v).space)));
  };
  if (op.kind == OperationKind::store) return;  // its source may be on the host already; see there
  const bool loads = op.kind == OperationKind::load, on_host = op.queue == Queue::host;
  for (const ValueId v : op.reads) need(v, loads || on_host ? MemorySpace::host : MemorySpace::device);
  if (takes_input(op)) return;
  for (const ValueId v : op.writes) need(v, on_host ? MemorySpace::host : MemorySpace::device);
  for (const Update& u : op.updates) need(u.after, on_host ? MemorySpace::host : MemorySpace::device);
}

void Interpreter::load(const Operation& op) {
  if (op.reads.size() == 1 && schedule_.value(op.reads[0]).kind == ValueKind::magnitudes) return load_magnitudes(op);
  return copies_activation(schedule_, op) ? copy_activation(op) : load_bucket(op);
}

void Interpreter::load_input(const Operation& op) {
  for (const ValueId id : op.writes) {
    write(id, {.content = {schedule_.value(id).kind, {}, -1, micro_steps_played_}});
  }
  for (const Update& u : op.updates) {
    const State* before = read(u.before);
    if (before == nullptr) continue;
    const bool is_open = schedule_.grid.world() == 1 || !before->type.placement.partial.empty();
    demand(before->type.kind == ValueKind::scalar && !before->has_wish && is_open,
           "takes the wish to stop into sums that have no place for it");
    State state = *before;
    state.has_wish = true;
    write(u.after, std::move(state));
  }
}

void Interpreter::store(const Operation& op) {
  for (const ValueId v : op.writes) {
    demand(schedule_.storage_of(v).space == MemorySpace::host,
           fmt::format("stores {} on the device: a copy lies on the host", name_of_value(schedule_, v)));
  }
  if (op.writes.size() != 1) return complain("a store writes one value");
  switch (schedule_.value(op.writes[0]).kind) {
    case ValueKind::gradient:
      return store_gradient(op);
    case ValueKind::scalar:
      return store_scalars(op);
    case ValueKind::activation:
      return copy_activation(op);
    default:
      return op.unit ? store_snapshot(op) : store_result(op);
  }
}

/// Copies a unit's state to the host: master and moments of one version, each element by exactly one rank.
void Interpreter::store_snapshot(const Operation& op) {
  const State* master = find_read(op, ValueKind::master, op.unit);
  const State* moments = find_read(op, ValueKind::moments, op.unit);
  if (master == nullptr || moments == nullptr || op.reads.size() != 2)
    return complain("a store reads master and moments of its unit and writes its snapshot");
  demand(master->version == step_ && moments->version == step_ && master->advanced == 0 && moments->advanced == 0,
         "stores state of another version");
  const Value& out = schedule_.value(op.writes[0]);
  demand(out.kind == ValueKind::snapshot && out.unit == op.unit && out.dtype() == moments->type.dtype(),
         "a snapshot is of the unit, in its type, and lies on the host");
  const Unit& unit = schedule_.unit(op.unit);
  const std::int64_t world = schedule_.grid.world();
  demand(owners_of(out) == world &&
             out.elements == snapshot_elements(schedule_.policy.optimizer, schedule_.policy.moments, unit, world),
         "each element must be stored on exactly one rank");
  demand(schedule_.state[op.unit].snapshot == out.storage, "a snapshot lies elsewhere than is noted of the unit");
  demand(stored_.insert(op.unit).second, "stores a unit twice");
  write(op.writes[0], {.version = step_});
}

/// Copies a gradient to the host. The update checks what it covers.
void Interpreter::store_gradient(const Operation& op) {
  const State* gradient = op.reads.size() == 1 ? find_read(op, ValueKind::gradient, op.unit) : nullptr;
  if (gradient == nullptr) return complain("a store of a gradient reads one of its unit");
  const Value& out = schedule_.value(op.writes[0]);
  demand(out.unit == op.unit && out.dtype() == gradient->type.dtype() &&
             out.placement.shard == gradient->type.placement.shard &&
             out.placement.partial == gradient->type.placement.partial,
         "the copy is of another unit, type or placement than the gradient");
  demand(out.elements == gradient->type.elements && op.bucket == Bucket{0, out.elements},
         "stores other elements than the gradient's");
  write(op.writes[0], *gradient);
}

void Interpreter::store_scalars(const Operation& op) {
  const State* scalars = op.reads.size() == 1 ? read(op.reads[0]) : nullptr;
  if (scalars == nullptr || scalars->type.kind != ValueKind::scalar)
    return complain("a store of scalars reads the clip's");
  demand(scalars->type.dtype() == schedule_.value(op.writes[0]).dtype() && scalars->version == step_,
         "stores scalars of another step");
  write(op.writes[0], *scalars);
}

/// Demands that the activation copied back for a recompute is the one that forward made.
void Interpreter::copy_activation(const Operation& op) {
  const State* source = op.reads.size() == 1 && op.updates.empty() ? read(op.reads[0]) : nullptr;
  if (source == nullptr || source->type.kind != ValueKind::activation)
    return complain("a copy of an activation reads one and writes it");
  const Value& out = schedule_.value(op.writes[0]);
  demand(out.part == source->type.part && out.dtype() == source->type.dtype() && out.elements == source->type.elements,
         "copies an activation into another part's, type or size");
  demand(schedule_.storage_of(op.reads[0]).space != schedule_.storage_of(op.writes[0]).space,
         "copies an activation within a memory space");
  demand(segment_->role == SegmentRole::micro_step, "copies an activation where there is no backward");
  write(op.writes[0], {.content = source->content});
}

std::optional<std::int64_t> Interpreter::version_of_bucket(const State& source, const Operation& op) {
  const Bucket& bucket = op.bucket;
  if (source.type.first >= 0) {
    demand(source.type.first == bucket.first && source.type.elements == bucket.count, "reads another bucket");
    return source.version;
  }
  demand(bucket.count > 0 && bucket.end() <= source.type.elements, "reads beyond the slice");
  if (bucket.end() <= source.advanced) return source.version + 1;
  if (bucket.first >= source.advanced) return source.version;
  return std::nullopt;
}

void Interpreter::write_bucket(const Operation& op, const Update& to, ValueKind kind, std::int64_t version) {
  const Value& out = schedule_.value(to.after);
  demand(out.kind == kind && out.unit == op.unit && out.first < 0, "writes another slice than its unit's");
  State state;
  state.version = version - 1;
  if (to.before) {
    const State* before = read(to.before);
    if (before == nullptr) return;
    state = *before;
  }
  demand(state.version == version - 1, "writes a bucket into a slice of another version");
  demand(state.advanced == op.bucket.first && op.bucket.end() <= out.elements,
         "writes a bucket that does not follow those before it");
  state.advanced = op.bucket.end();
  if (state.advanced == out.elements) ++state.version, state.advanced = 0;
  write(to.after, std::move(state));
}

/// Copies a bucket of parameters from the host: of the master if it has the type, else of its cast.
void Interpreter::load_bucket(const Operation& op) {
  const State* source = op.reads.size() == 1 ? read(op.reads[0]) : nullptr;
  if (source == nullptr) return complain("a load reads one value");
  const ValueKind kind = source->type.kind;
  if ((kind != ValueKind::master && kind != ValueKind::parameter) || source->type.unit != op.unit)
    return complain("only parameters of its unit are loaded");
  const auto version = version_of_bucket(*source, op);
  if (!version) return complain("loads a bucket that is updated in part");
  for (const ValueId v : touched_values(op)) {
    const Value& value = schedule_.value(v);
    demand(value.dtype() == source->type.dtype() && value.placement.shard == source->type.placement.shard,
           "loads into another type or placement");
  }
  if (op.writes.size() + op.updates.size() != 1) return complain("loads more than one slice");
  const Update to = op.writes.empty() ? op.updates[0] : Update{{}, op.writes[0]};
  demand(schedule_.value(to.after).dtype() == schedule_.policy.compute,
         "loads parameters in another type than is gathered");
  write_bucket(op, to, ValueKind::parameter, *version);
}

void Interpreter::gather(const Operation& op) {
  if (op.reads.empty() || op.writes.size() != 1) return complain("a gather reads one value and writes one");
  const State* source = read(op.reads[0]);
  if (source == nullptr) return;
  if (const bool makes_codes = need_codes(op, *source); op.reads.size() != (makes_codes ? 2 : 1))
    return complain("a gather reads one value, and the magnitudes of what it makes codes of");
  demand(source->advanced == 0, "gathers a slice that is updated in part");
  State full = *source;
  const Value& out = schedule_.value(op.writes[0]);
  const bool is_cast = op.kind == OperationKind::cast;
  demand(is_cast ? op.group == Group::self : source->type.placement.shard.has(op.group),
         "gathers over a group that the value is not split over");
  demand(out.placement.shard == source->type.placement.shard.without(op.group),
         "the gathered value's placement is not the source's without the group");
  demand(out.elements == source->type.elements * schedule_.grid.size(op.group),
         "the gathered value has another size than the group's slices");
  demand(out.placement.partial == source->type.placement.partial, "a gather pays no sums");
  const bool is_sliced = source->type.placement.shard.has(Group::sub);
  const bool in_place = schedule_.gathers_in_place(op);
  const bool rests =
      source->type.kind == ValueKind::parameter &&
      (!schedule_.unit(source->type.unit).trains || schedule_.is_offloaded(source->type.unit) || is_sliced || in_place);
  const bool lies_in_place =
      source->type.kind == ValueKind::parameter && schedule_.storage_of(op.reads[0]).bytes > source->type.bytes();
  demand(in_place == lies_in_place, "gathers a slice from where it does not lie");
  if (source->type.kind == ValueKind::master || rests) {
    demand(out.kind == ValueKind::parameter && out.dtype() == schedule_.gathered_type(out.unit),
           "a gathered master is a parameter in the type that compute reads");
  } else {
    demand(source->type.kind == ValueKind::gradient && source->type.placement.partial.empty(),
           "only masters and finished gradients are gathered");
  }
  write(op.writes[0], std::move(full));
}

/// Casts what one rank has; on the host a bucket of a master to the type that is loaded, before the first step.
void Interpreter::cast(const Operation& op) {
  if (op.queue != Queue::host) return gather(op);
  const State* master = op.reads.size() == 1 ? find_read(op, ValueKind::master, op.unit) : nullptr;
  if (master == nullptr || op.writes.size() + op.updates.size() != 1)
    return complain("a cast on the host reads the master of its unit and writes one value");
  const auto version = version_of_bucket(*master, op);
  if (!version) return complain("casts a bucket that is updated in part");
  write_cast(op, op.writes.empty() ? op.updates[0] : Update{{}, op.writes[0]}, master->type, *version);
}

void Interpreter::write_cast(const Operation& op, const Update& to, const Value& master, std::int64_t version) {
  const Value& out = schedule_.value(to.after);
  const Bucket& bucket = op.bucket;
  demand(out.kind == ValueKind::parameter && out.unit == op.unit && out.dtype() == schedule_.policy.compute &&
             out.placement.shard == master.placement.shard && out.placement.partial == master.placement.partial,
         "a cast master is a slice of parameters in the compute type");
  if (bucket.count > 0 && out.first < 0) return write_bucket(op, to, ValueKind::parameter, version);
  if (bucket.count > 0) {
    demand(out.first == bucket.first && out.elements == bucket.count, "casts other elements than those of its bucket");
  } else {
    demand(out.elements == master.elements && out.first < 0 && !to.before, "casts other elements than its slice's");
    demand(schedule_.storage_of(to.after).bytes == schedule_.unit(op.unit).padded * size_of(schedule_.policy.compute),
           "the slice of a copy lies in a full one");
  }
  write(to.after, {.version = version});
}

/// Keeps a rank's part of full parameters, without any other rank.
void Interpreter::slice(const Operation& op) {
  if (op.reads.size() != 1 || op.writes.size() != 1) return complain("a slice reads one value and writes one");
  const State* source = read(op.reads[0]);
  if (source == nullptr) return;
  const Value& out = schedule_.value(op.writes[0]);
  demand(source->type.kind == ValueKind::parameter && source->type.placement.shard.empty() &&
             source->type.placement.partial.empty(),
         "only full parameters are sliced");
  demand(op.group == Group::sub && out.placement.shard == source->type.placement.shard.with(op.group) &&
             out.placement.partial.empty(),
         "the placement is not the source's sharded over the sub-group");
  demand(out.kind == ValueKind::parameter && out.unit == source->type.unit && out.dtype() == source->type.dtype() &&
             out.elements * schedule_.grid.size(op.group) == source->type.elements,
         "the slice is not its rank's part of the source");
  write(op.writes[0], *source);
}

}  // namespace tessera
