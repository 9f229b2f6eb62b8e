#include "schedule/passes/parameters.hpp"

#include <algorithm>

namespace tessera {

Parameters::Parameters(Writer& writer) : w_(writer), parameter_buffers_(writer) {
  const StepSchedule& s = w_.schedule();
  const SchedulePolicy& policy = s.policy;
  const StrategyRules& rules = rules_of(policy.strategy);
  sharded_ = {s.grid.larger_than_one({rules.state}), {}, DType::fp32};
  loaded_ = {sharded_.shard, {}, policy.compute};
  const ParameterLife life = life_of(policy);
  for (const UnitId unit : s.layout.units.ids()) {
    OfUnit of;
    of.offloaded = s.is_offloaded(unit);
    of.rests = of.offloaded ? loaded_ : sharded_;
    of.full = {{}, {}, s.gathered_type(unit)};
    if (!s.unit(unit).trains) add_parameters(of, unit);
    const bool stays = !is_full(of) && life == ParameterLife::rest;
    of.shard_rests = of.offloaded && !is_loaded_to_gather(of) && !stays;
    if (s.unit(unit).trains) add_state(of, unit);
    const Value value = full_copy(unit);
    const std::string name = "full " + s.unit(unit).name;
    if (stays) {
      of.for_ever = w_.add(at_rest(name, Category::parameters, RegionKind::shared), value);
    } else if ((!is_full(of) || is_loaded_to_gather(of)) && life == ParameterLife::step && policy.accumulation > 1) {
      const RegionKind region = is_full(of) ? RegionKind::private_ : RegionKind::shared;
      of.for_a_step = w_.add(tessera::carried(name, Category::gathered_units, region), value);
    }
    if (s.unit(unit).is_fp8())
      w_.state(unit).magnitudes =
          w_.add(at_rest("magnitudes " + s.unit(unit).name, Category::communication), magnitudes_of(unit));
    units_.push_back(of);
  }
}

Value Parameters::magnitudes_of(UnitId unit) const {
  return value_of(ValueKind::magnitudes, {{}, {}, DType::int64}, std::ssize(w_.schedule().unit(unit).fp8_weights),
                  unit);
}

Value Parameters::full_copy(UnitId unit) const {
  const StepSchedule& s = w_.schedule();
  return value_of(ValueKind::parameter, {{}, {}, s.gathered_type(unit)}, s.unit(unit).padded, unit);
}

void Parameters::carry(const std::vector<UnitId>& units) {
  for (const UnitId unit : units) {
    OfUnit& of = units_[unit];
    if (is_full(of)) continue;  // loaded, not gathered
    of.for_next = of.for_a_step;
    if (!of.for_next) {
      const std::string name = "next full " + w_.schedule().unit(unit).name;
      of.for_next = w_.add(tessera::carried(name, Category::gathered_units, RegionKind::shared), full_copy(unit));
    }
    carried_.push_back(unit);
  }
}

/// Adds the state of a rank's slice: master and moments where the unit's state is, and the copies that are cast and
/// loaded.
void Parameters::add_state(OfUnit& of, UnitId id) {
  const StepSchedule& s = w_.schedule();
  const MemorySpace space = of.offloaded ? MemorySpace::host : MemorySpace::device;
  const Unit& unit = s.unit(id);
  const auto add = [&](const char* what, Category category, MemorySpace where, const Value& value) {
    if (where == MemorySpace::host) return w_.add(in_host_memory(what, at_rest(unit.name, category)), value);
    return w_.add(at_rest(fmt::format("{} {}", what, unit.name), category), value);
  };
  UnitState& state = w_.state(id);
  state.elements = unit.share(s.grid.size(rules_of(s.policy.strategy).state));
  state.master = add("master", Category::parameters, space, value_of(ValueKind::master, sharded_, state.elements, id));
  const std::int64_t moments = state_elements(s.policy.optimizer, unit, unit.padded / state.elements);
  state.moments = add("moments", Category::optimizer_state, space,
                      value_of(ValueKind::moments, {sharded_.shard, {}, s.policy.moments}, moments, id));
  const Value value = value_of(ValueKind::parameter, loaded_, state.elements, id);
  if (of.shard_rests) of.shard = add("shard", Category::parameters, MemorySpace::device, value);
  if (is_loaded_to_gather(of) && loaded_.dtype != sharded_.dtype)
    of.on_host = add("parameters", Category::parameters, MemorySpace::host, value);
}

/// Of what does not train a rank keeps no masters: only its share in the type that is gathered, or all if full
/// parameters always stay.
void Parameters::add_parameters(OfUnit& of, UnitId unit) {
  const StepSchedule& s = w_.schedule();
  of.rests = of.full;
  if (life_of(s.policy) != ParameterLife::rest) of.rests.shard = sharded_.shard;
  Value value = full_copy(unit);
  if (!of.rests.shard.empty()) value.elements = s.unit(unit).share(s.grid.size(rules_of(s.policy.strategy).state));
  value.placement = of.rests;
  w_.state(unit).master = w_.add(at_rest("parameters " + s.unit(unit).name, Category::parameters), value);
  w_.state(unit).elements = value.elements;
}

void Parameters::gather(UnitId unit, std::vector<Edge> after, CopyUse use) {
  const OfUnit& of = units_[unit];
  const bool is_sliced = of.slice && w_.holds(of.slice) && use != CopyUse::next;
  if (is_loaded_to_gather(of) && !is_sliced) load_slice(unit, std::exchange(after, {}));
  gather_from(is_sliced ? w_.current(of.slice) : source(unit), std::move(after), use);
}

void Parameters::gather_from(ValueId value, std::vector<Edge> after, CopyUse use) {
  const UnitId unit = w_.value(value).unit;
  OfUnit& of = units_[unit];
  for (const Redistribution& step : redistribute(w_.value(value).placement, of.full)) {
    Value result = w_.redistributed(value, step);
    result.kind = ValueKind::parameter;
    of.gathered = of.for_ever;
    if (!of.gathered && use != CopyUse::here) of.gathered = of.for_next;
    if (!of.gathered && w_.role() == SegmentRole::micro_step) of.gathered = of.for_a_step;
    if (!of.gathered) {
      of.gathered = w_.add(local("full " + w_.schedule().unit(unit).name, Category::gathered_units, RegionKind::shared),
                           result.bytes());
    }
    const bool makes_codes = result.dtype() != w_.value(value).dtype() && result.dtype() == DType::e4m3;
    value = w_.emit_collective(value, step, Queue::gather, std::move(result), of.gathered, std::move(after),
                               makes_codes ? magnitudes(unit) : ValueId());
  }
}

OperationId Parameters::slice(UnitId unit) {
  const ValueId whole = this->full(unit);
  const Placement& full = units_[unit].full;
  const Redistribution step =
      redistribute(full, {w_.schedule().grid.larger_than_one({Group::sub}), {}, full.dtype}).at(0);
  Operation op = operation_of(OperationKind::slice, Queue::compute, unit);
  op.group = step.group;
  op.reads = {whole};
  Storage storage = local("slice " + w_.schedule().unit(unit).name, Category::gathered_units);
  units_[unit].slice = w_.value(w_.write(op, std::move(storage), w_.redistributed(whole, step))).storage;
  return w_.emit(std::move(op));
}

ValueId Parameters::full(UnitId unit) {
  const OfUnit& of = units_[unit];
  if (is_full(of)) return source(unit);
  if (of.gathered && w_.holds(of.gathered)) return w_.current(of.gathered);
  const StorageId stays = of.for_ever ? of.for_ever : of.for_a_step ? of.for_a_step : of.for_next;
  TESSERA_ASSERT(stays, "unit {} is read before it was gathered", w_.schedule().unit(unit).name);
  return w_.current(stays);
}

bool Parameters::are_there(UnitId unit, bool after_first_micro_step) const {
  const OfUnit& of = units_[unit];
  const bool rest = is_full(of) && !is_loaded_to_gather(of);
  return rest || of.for_ever || (after_first_micro_step && of.for_a_step);
}

void Parameters::update(UnitId unit, ValueId gradient, ValueId clipped, ValueId direction) {
  if (!w_.schedule().unit(unit).trains) return gather_what_stays(unit);
  const OfUnit& of = units_[unit];
  if (of.offloaded) return update_on_host(unit, gradient, clipped);
  Operation op = operation_of(OperationKind::update, Queue::compute, unit);
  op.reads = {gradient, clipped};
  if (direction) op.reads.push_back(direction);
  for (const ValueId before : {master(unit), moments(unit)}) {
    Value after = w_.value(before);
    after.version += 1;
    w_.update(op, before, after);
  }
  const StorageId copy = of.for_ever ? of.for_ever : of.for_next;
  ValueId written;
  if (copy && of.full.dtype == loaded_.dtype && loaded_.dtype != sharded_.dtype) {
    // The update has the new parameters at hand, so it also writes their cast to this rank's slice of the full copy.
    Value slice = w_.value(master(unit));
    slice.kind = ValueKind::parameter;
    slice.placement = loaded_;
    written = w_.write(op, copy, std::move(slice));
  }
  w_.emit(std::move(op));
  find_magnitudes(unit);
  if (!written) return gather_what_stays(unit);
  gather_from(written, {}, CopyUse::next);
}

void Parameters::find_magnitudes(UnitId unit) {
  const OfUnit& of = units_[unit];
  const StorageId kept = w_.state(unit).magnitudes;
  if (!kept || !w_.schedule().unit(unit).trains) return;  // those of frozen weights came with them
  // If each gather loads its slice from the host, the host searches the master there. A slice that was just copied to
  // the device is searched on the queue of its gather, which waits for that copy anyway.
  const bool on_host = is_loaded_to_gather(of);
  const ValueId from = on_host ? master(unit) : source(unit);
  Value found = magnitudes_of(unit);
  found.placement.partial = w_.value(from).placement.shard;
  found.version = w_.value(from).version;
  Operation op = operation_of(OperationKind::magnitudes,
                              on_host        ? Queue::host
                              : of.offloaded ? Queue::gather
                                             : Queue::compute,
                              unit);
  op.reads = {from};
  Storage place = in_host_memory("magnitudes", local(w_.schedule().unit(unit).name, Category::communication));
  ValueId made = on_host ? w_.write(op, std::move(place), found) : w_.write(op, kept, found);
  w_.emit(std::move(op));
  if (on_host) {
    Operation load = operation_of(OperationKind::load, Queue::load, unit);
    load.reads = {made};
    made = w_.write(load, kept, found);
    w_.emit(std::move(load));
  }
  for (const Redistribution& step : redistribute(found.placement, {{}, {}, DType::int64}))
    made = w_.emit_collective(made, step, Queue::gather, w_.redistributed(made, step), kept);
}

void Parameters::gather_what_stays(UnitId unit) {
  const OfUnit& of = units_[unit];
  if (of.for_ever) gather(unit, {});
  if (of.for_next) gather(unit, {}, CopyUse::next);
}

bool Parameters::need_prologue() const {
  return std::ranges::any_of(units_.ids(), [&](UnitId unit) {
    const OfUnit& of = units_[unit];
    const bool has_magnitudes = w_.state(unit).magnitudes && w_.schedule().unit(unit).trains;
    return of.for_ever || of.for_next || of.shard_rests || of.on_host || has_magnitudes;
  });
}

SegmentId Parameters::write_prologue() {
  w_.open_segment(SegmentRole::prologue, "prologue");
  for (const UnitId unit : units_.ids()) {
    const OfUnit& of = units_[unit];
    if (of.offloaded) {
      for (const Bucket& bucket : buckets_of(unit)) bring_up_first(unit, bucket);
    }
    find_magnitudes(unit);
    gather_what_stays(unit);
  }
  return w_.close_segment();
}

}  // namespace tessera
