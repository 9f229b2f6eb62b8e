#include "schedule/passes/gradients.hpp"

#include <algorithm>

namespace tessera {

namespace {

/// Holds a finished sum that a collective reads next.
Storage wire_storage(const Unit& unit) {
  return local("summed grad " + unit.name, Category::gradients, RegionKind::shared);
}

std::vector<UnitId> trained_units_of(const StepSchedule& s, PartId part) {
  std::vector<UnitId> units = s.layout.units_of(s.part(part).tensors);
  std::erase_if(units, [&](UnitId unit) { return !s.unit(unit).trains; });
  return units;
}

}  // namespace

Gradients::Gradients(Writer& writer, const Placement& updated, Scalars& scalars)
    : w_(writer), scalars_(scalars), updated_(updated) {
  const SchedulePolicy& policy = w_.policy();
  const ProcessGrid& grid = w_.schedule().grid;
  const StrategyRules& rules = rules_of(policy.strategy);
  const Groups inner = grid.larger_than_one({rules.inner}), outer = grid.larger_than_one({rules.outer});
  contributed_ = {{}, grid.larger_than_one({rules.inner, rules.outer}), policy.reduce};
  const bool at_once = !inner.empty() && (policy.reduce_each_micro_step || !accumulates());
  waiting_ = at_once ? Placement{inner, outer, DType::fp32} : contributed_;
}

void Gradients::begin(const MicroStepKind& kind, const MicroStepKind& before) {
  kind_ = kind, before_ = before;
  contributors_.clear(), gradient_.clear(), reduced_by_.clear();
  unsummed_.clear(), unmeasured_.clear(), late_.clear();
  const StepSchedule& s = w_.schedule();
  for (PartId id = s.model.parts.end_id() - 1; id; --id) {  // in backward order
    for (const UnitId unit : trained_units_of(s, id)) contributors_[unit].push_back(id);
  }
}

bool Gradients::adds_in_backward() const {
  return w_.policy().adds_in_backward && contributed_.dtype == DType::fp32 && !kind_.merged_slots.empty() &&
         !reduces_at_once() && !(kind_.last && goes_on_wire(contributed_));
}

bool Gradients::is_deferred(UnitId unit) const {
  if (!defers() || kind_.last) return false;
  const std::vector<PartId>& missing = contributors_.at(unit);
  return !missing.empty() && w_.schedule().part(missing.back()).kind == PartKind::embedding;
}

void Gradients::reduce_deferred() {
  if (kind_.first) return;
  for (const auto& [unit, storage] : pending_)  // the rest belongs to the sum of the micro-step before
    late_.emplace_back(unit, bring(w_.current(storage), waiting_, begins_sum(before_) ? before_.result_slot : -1));
}

void Gradients::add_deferred(std::vector<Edge>& before_head) {
  for (const auto& [unit, gradient] : late_) {
    before_head.push_back({w_.value(gradient).maker, EdgeReason::staging});
    accumulate(unit, gradient, before_);
  }
}

Placement Gradients::measured(const Placement& gradient) const {
  Placement to{contributed_.partial, {}, gradient.dtype};
  // What is gathered back for the update is rounded to the wire's type first, so that the update applies exactly what
  // the norm saw (an overflow, say).
  if (!gradient.partial.empty()) to.dtype = to.shard == updated_.shard ? DType::fp32 : contributed_.dtype;
  return to;
}

bool Gradients::goes_on_wire(const Placement& sum) const {
  auto steps = redistribute(sum, measured(sum));
  if (!steps.empty()) return true;
  steps = redistribute(sum, {updated_.shard, {}, sum.dtype});
  return !steps.empty() && sum.dtype != contributed_.dtype;
}

void Gradients::contribute(Operation& op) {
  const StepSchedule& s = w_.schedule();
  for (const UnitId unit : trained_units_of(s, op.part)) {
    const auto before = gradient_.find(unit);
    if (before != gradient_.end()) {
      Value after = w_.value(before->second);
      if (std::ranges::count(after.covers, op.part) == 0) after.covers.push_back(op.part);
      before->second = w_.update(op, before->second, std::move(after));
      continue;
    }
    Value gradient = value_of(ValueKind::gradient, contributed_, s.unit(unit).padded, unit);
    gradient.covers = {op.part};
    if (const auto pending = pending_.find(unit); pending != pending_.end() && is_deferred(unit)) {
      gradient_[unit] = w_.write(op, pending->second, gradient);
      continue;
    }
    if (adds_in_backward()) {
      const ValueId sum = w_.current(accumulator(unit, kind_.result_slot, gradient));
      gradient_[unit] = w_.update(op, sum, w_.value(sum));
      continue;
    }
    if (begins_sum(kind_) && !reduces_at_once() && gradient.dtype() == DType::fp32) {
      gradient_[unit] = w_.write(op, accumulator(unit, kind_.result_slot, gradient), gradient);
    } else {
      const Placement next = accumulates() ? waiting_ : measured(contributed_);
      const RegionKind region = redistribute(contributed_, next).empty() ? RegionKind::private_ : RegionKind::shared;
      gradient_[unit] = w_.write(op, local("grad " + s.unit(unit).name, Category::gradients, region), gradient);
    }
    const auto limit = static_cast<std::size_t>(kGradientStaging);
    if (reduces_at_once() && s.unit(unit).is_block && reduced_by_.size() >= limit) {
      op.after.push_back({reduced_by_[reduced_by_.size() - limit], EdgeReason::staging});
    }
  }
}

void Gradients::finish_ready(PartId part) {
  for (UnitId unit = w_.schedule().layout.units.end_id() - 1; unit; --unit) {
    const auto missing = contributors_.find(unit);
    if (missing == contributors_.end() || std::ranges::find(missing->second, part) == missing->second.end()) continue;
    const bool is_last = missing->second.size() == 1;
    if (is_last && is_deferred(unit)) {
      pending_[unit] = w_.carry(gradient_.at(unit));
    } else if (is_last) {
      finish(unit);
    }
    std::erase(missing->second, part);
  }
}

void Gradients::finish(UnitId unit) {
  ValueId gradient = gradient_.at(unit);
  if (accumulates()) gradient = bring(gradient, waiting_, begins_sum(kind_) ? kind_.result_slot : -1);
  if (defers()) {
    unsummed_.emplace_back(unit, gradient);
  } else {
    sum(unit, gradient);
  }
}

void Gradients::sum(UnitId unit, ValueId gradient) {
  if (accumulates()) gradient = accumulate(unit, gradient, kind_);
  if (!kind_.last) return;
  gradient = bring(gradient, measured(w_.value(gradient).placement));
  unmeasured_.push_back(gradient);
  gradient = bring(gradient, {updated_.shard, {}, w_.value(gradient).dtype()});
  if (w_.schedule().is_offloaded(unit)) gradient = store(gradient);
  finished_[unit] = w_.carry(gradient);
}

ValueId Gradients::bring(ValueId gradient, const Placement& to, int slot) {
  const std::vector<Redistribution> steps = redistribute(w_.value(gradient).placement, to);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Redistribution& step = steps[i];
    Value result = w_.redistributed(gradient, step);
    const std::string name = w_.schedule().unit(result.unit).name;
    const bool reduces = step.kind == OperationKind::reduce_scatter || step.kind == OperationKind::all_reduce;
    const bool ends = i + 1 == steps.size();
    StorageId into;
    if (ends && slot >= 0) {
      into = accumulator(result.unit, slot, result);
    } else {  // peers read what is reduced next, and write what is gathered
      into = w_.add(local((reduces ? "shard grad " : "reduced grad ") + name, Category::gradients,
                          reduces && ends ? RegionKind::private_ : RegionKind::shared),
                    result.bytes());
    }
    const bool was_full = w_.value(gradient).placement.shard.empty();
    const Queue queue = step.group == Group::replica ? Queue::replica : Queue::reduce;
    const bool counts = w_.schedule().unit(result.unit).is_block;
    gradient = w_.emit_collective(gradient, step, queue, std::move(result), into);
    if (was_full && counts) reduced_by_.push_back(w_.value(gradient).maker);
  }
  return gradient;
}

ValueId Gradients::store(ValueId gradient) {
  Value copy = w_.value(gradient);
  Operation op = operation_of(OperationKind::store, Queue::store, copy.unit);
  op.reads = {gradient};
  op.bucket = {0, copy.elements};
  Storage place = in_host_memory("gradients", local(w_.schedule().unit(copy.unit).name, Category::gradients));
  const ValueId on_host = w_.write(op, std::move(place), std::move(copy));
  w_.emit(std::move(op));
  return on_host;
}

ValueId Gradients::accumulate(UnitId unit, ValueId gradient, const MicroStepKind& kind) {
  if (adds_in_backward()) return gradient;
  Value sum = w_.value(gradient);
  sum.placement.dtype = DType::fp32;
  if (kind.merged_slots.empty()) {
    const StorageId target = accumulator(unit, kind.result_slot, sum);
    if (w_.value(gradient).storage == target) return gradient;
    Operation op = operation_of(OperationKind::accumulate, Queue::compute, unit);  // a copy: widens a 16-bit gradient
    op.reads.push_back(gradient);
    const ValueId result = w_.write(op, target, sum);
    w_.emit(std::move(op));
    return result;
  }
  for (std::size_t i = 0; i < kind.merged_slots.size(); ++i) {
    const int slot = kind.merged_slots[i];
    const bool final_merge = i + 1 == kind.merged_slots.size();
    const ValueId held = w_.current(accumulator(unit, slot, sum));
    Operation op = operation_of(OperationKind::accumulate, Queue::compute, unit);
    op.reads.push_back(gradient);
    if (final_merge && kind.last && goes_on_wire(sum.placement)) {
      op.reads.push_back(held);
      Value out = sum;
      out.placement.dtype = contributed_.dtype;
      gradient = w_.write(op, wire_storage(w_.schedule().unit(unit)), out);
    } else if (final_merge && !kind.last && kind.result_slot != slot) {
      op.reads.push_back(held);
      gradient = w_.write(op, accumulator(unit, kind.result_slot, sum), sum);
    } else {
      gradient = w_.update(op, held, sum);
    }
    w_.emit(std::move(op));
  }
  return gradient;
}

StorageId Gradients::accumulator(UnitId unit, int slot, const Value& like) {
  const auto key = std::make_pair(unit, slot);
  if (const auto it = accumulators_.find(key); it != accumulators_.end()) return it->second;
  const StepSchedule& s = w_.schedule();
  Value held = like;
  held.placement.dtype = DType::fp32;
  held.covers.clear();
  for (const PartId part : s.model.parts.ids()) {
    if (std::ranges::count(s.layout.units_of(s.part(part).tensors), unit) > 0) held.covers.push_back(part);
  }
  return accumulators_[key] =
             w_.add(carried(fmt::format("sum {} slot {}", s.unit(unit).name, slot), Category::gradients), held);
}

void Gradients::sum_and_measure_all_but(std::size_t keep) {
  while (unsummed_.size() > keep) {
    sum(unsummed_.front().first, unsummed_.front().second);
    unsummed_.erase(unsummed_.begin());
  }
  while (unmeasured_.size() > keep) {
    scalars_.measure(unmeasured_.front());
    unmeasured_.erase(unmeasured_.begin());
  }
}

void Gradients::note_savings() const {
  const StepSchedule& s = w_.schedule();
  const Group inner = rules_of(s.policy.strategy).inner;
  if (s.grid.size(inner) == 1 || !updated_.shard.empty() || !s.policy.reduce_each_micro_step || !accumulates()) return;
  w_.add_saving({"gradients stay split between micro-steps",
                 w_.wire_bytes(s.layout.trained_elements(), s.policy.reduce, inner) * (s.policy.accumulation - 1)});
}

}  // namespace tessera
