#include "schedule/passes/parameters.hpp"

namespace tessera {

Parameters::Parameters(Writer& writer, const SchedulePolicy& policy) : w_(writer) {
  const StepSchedule& s = w_.schedule();
  const StrategyRules& rules = rules_of(policy.strategy);
  const ParameterLife life = life_of(policy);
  sharded_ = {s.grid.larger_than_one({rules.state}), {}, DType::fp32};
  full_ = {{}, {}, policy.compute};
  if (!policy.training) {
    add_parameters(life, rules.state);
    return;
  }
  const bool copied = !redistribute(sharded_, full_).empty();
  for (const UnitId unit : s.layout.units.ids()) {
    const std::string& name = s.unit(unit).name;
    OfUnit of;
    Value value;
    value.kind = ValueKind::master;
    value.unit = unit;
    value.elements = s.unit(unit).share(s.grid.size(rules.state));
    static_cast<Placement&>(value) = sharded_;
    of.master = w_.add(at_rest("master " + name, Category::parameters), value);
    value.kind = ValueKind::moments;
    value.elements *= 2;
    of.moments = w_.add(at_rest("moments " + name, Category::optimizer_state), value);
    value.kind = ValueKind::parameter;
    value.elements = s.unit(unit).padded;
    static_cast<Placement&>(value) = full_;
    if (copied && life == ParameterLife::rest) {
      of.for_ever = w_.add(at_rest("full " + name, Category::parameters, RegionKind::shared), value);
    } else if (copied && life == ParameterLife::step && policy.accumulation > 1) {
      of.for_a_step = w_.add(carried("full " + name, Category::gathered_units, RegionKind::shared), value);
    }
    units_.push_back(of);
  }
}

/// Without training a rank keeps no masters: its share in the compute type, or all where full parameters live for ever.
void Parameters::add_parameters(ParameterLife life, Group state) {
  const StepSchedule& s = w_.schedule();
  sharded_.dtype = full_.dtype;
  if (life == ParameterLife::rest) sharded_ = full_;
  for (const UnitId unit : s.layout.units.ids()) {
    Value value;
    value.kind = ValueKind::parameter;
    value.unit = unit;
    value.elements = sharded_.shard.empty() ? s.unit(unit).padded : s.unit(unit).share(s.grid.size(state));
    static_cast<Placement&>(value) = sharded_;
    OfUnit of;
    of.master = w_.add(at_rest("parameters " + s.unit(unit).name, Category::parameters), value);
    units_.push_back(of);
  }
}

void Parameters::gather(UnitId unit, std::vector<Edge> after) {
  OfUnit& of = units_[unit];
  ValueId value = master(unit);
  for (const Redistribution& step : redistribute(sharded_, full_)) {
    Value result = w_.redistributed(value, step);
    result.kind = ValueKind::parameter;
    of.gathered = of.for_ever;
    if (!of.gathered && w_.role() == SegmentRole::micro_step) of.gathered = of.for_a_step;
    if (!of.gathered) {
      of.gathered = w_.add(local("full " + w_.schedule().unit(unit).name, Category::gathered_units, RegionKind::shared),
                           result.bytes());
    }
    value = w_.emit_collective(value, step, Queue::gather, std::move(result), of.gathered, std::move(after));
  }
}

ValueId Parameters::full(UnitId unit) {
  if (redistribute(sharded_, full_).empty()) return master(unit);
  const OfUnit& of = units_[unit];
  if (of.gathered && w_.holds(of.gathered)) return w_.current(of.gathered);
  const StorageId stays = of.for_ever ? of.for_ever : of.for_a_step;
  TESSERA_ASSERT(stays, "unit {} is read before it was gathered", w_.schedule().unit(unit).name);
  return w_.current(stays);
}

bool Parameters::are_there(UnitId unit, bool after_first_micro_step) const {
  const OfUnit& of = units_[unit];
  return redistribute(sharded_, full_).empty() || of.for_ever || (after_first_micro_step && of.for_a_step);
}

bool Parameters::stay_for_ever() const { return !units_.empty() && units_.front().for_ever; }

SegmentId Parameters::write_prologue() {
  w_.open_segment(SegmentRole::prologue, "prologue");
  for (const UnitId unit : units_.ids()) gather(unit, {});
  return w_.close_segment();
}

}  // namespace tessera
