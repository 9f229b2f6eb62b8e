// The interpreter's rules from a contribution to a gradient up to the update: who made it, whether it is still partial,
// and whether it was measured.

#include <algorithm>

#include "schedule/verify/interpreter.hpp"
#include "tessera/base/math.hpp"

namespace tessera {

std::set<PartId> Interpreter::parts_of(UnitId unit) const {
  std::set<PartId> parts;
  for (const PartId id : schedule_.model.parts.ids()) {
    if (std::ranges::count(schedule_.layout.units_of(schedule_.part(id).tensors), unit) > 0) parts.insert(id);
  }
  return parts;
}

std::int64_t Interpreter::owners_of(const Value& value) const {
  std::int64_t owners = 1;
  for (const Group group : {Group::world, Group::shard, Group::replica}) {
    if (value.placement.shard.has(group)) owners *= schedule_.grid.size(group);
  }
  return owners;
}

void Interpreter::contribute(const Operation& op, const Part& part) {
  const std::vector<UnitId> units = schedule_.layout.units_of(part.tensors);
  std::set<UnitId> wanted(units.begin(), units.end());
  std::erase_if(wanted, [&](UnitId unit) { return !schedule_.unit(unit).trains; });
  for (const ValueId id : op.writes) {
    const Value& v = schedule_.value(id);
    if (v.kind != ValueKind::gradient) continue;
    State state;
    state.covers = {op.part};
    state.from = micro_step_, state.to = micro_step_ + 1, state.version = step_;
    demand(wanted.erase(v.unit) == 1, "writes a gradient of a unit that is not its own");
    demand(v.placement.shard.empty() && v.elements == schedule_.unit(v.unit).padded, "backward makes full gradients");
    write(id, std::move(state));
  }
  for (const Update& u : op.updates) {
    const Value& v = schedule_.value(u.after);
    if (v.kind != ValueKind::gradient) continue;
    const State* before = read(u.before);
    if (before == nullptr) continue;
    State state = *before;
    demand(wanted.erase(v.unit) == 1, "updates a gradient of a unit that is not its own");
    if (state.to == micro_step_ && !schedule_.policy.deterministic) {  // a running sum takes up one more micro-step
      demand(state.covers == parts_of(v.unit), "adds to a sum that does not cover everything");
      demand(state.type.dtype() == DType::fp32, "adds to a sum that is not in fp32");
      state.to = micro_step_ + 1, state.covers.clear();
    }
    demand(state.to == micro_step_ + 1 && (state.from == micro_step_ || !schedule_.policy.deterministic),
           "adds to a gradient of another micro-step");
    demand(state.covers.insert(op.part).second, "contributes twice to one gradient");
    write(u.after, std::move(state));
  }
  for (const UnitId unit : wanted) complain(fmt::format("leaves out the gradient of {}", schedule_.unit(unit).name));
}

/// Checks a reduce-scatter. The storage that a collective writes, from `first` on, is space to receive in.
void Interpreter::reduce_scatter(const Operation& op) {
  if (op.reads.size() != 1 || op.writes.empty()) return complain("a reduce-scatter reads one value and writes one");
  write_scratch(op, 1);
  const State* source = read(op.reads[0]);
  if (source == nullptr) return;
  const Value& out = schedule_.value(op.writes[0]);
  demand(source->type.kind == ValueKind::gradient, "only gradients are reduced");
  demand(source->type.placement.partial.has(op.group), "the value is not partial over the group");
  demand(!source->type.placement.shard.has(op.group), "the value is already split over the group");
  demand(out.placement.partial == source->type.placement.partial.without(op.group),
         "owes other sums than the source less the group");
  demand(out.placement.shard == source->type.placement.shard.with(op.group),
         "the placement is not the source's sharded over the group");
  demand(out.elements * schedule_.grid.size(op.group) == source->type.elements, "slices do not add up to the source");
  write(op.writes[0], *source);
}

void Interpreter::all_reduce(const Operation& op) {
  if (op.updates.size() != 1) return complain("an all-reduce updates one value");
  write_scratch(op, 0);
  const State* before = read(op.updates[0].before);
  if (before == nullptr) return;
  demand(before->type.placement.partial.has(op.group), "the value is not partial over the group");
  const Value& after = schedule_.value(op.updates[0].after);
  demand(after.placement.partial == before->type.placement.partial.without(op.group),
         "owes other sums than before less the group");
  demand(after.kind == before->type.kind, "reduces one kind of value into another");
  write(op.updates[0].after, *before);
}

void Interpreter::accumulate(const Operation& op) {
  std::vector<const State*> terms;
  for (const ValueId id : op.reads) terms.push_back(read(id));
  for (const Update& u : op.updates) terms.push_back(read(u.before));
  const ValueId result = !op.updates.empty() ? op.updates[0].after : op.writes.empty() ? ValueId() : op.writes[0];
  if (!result || terms.empty() || terms.size() > 2 || std::find(terms.begin(), terms.end(), nullptr) != terms.end()) {
    return complain("an accumulation adds one or two values into one");
  }
  State sum = *terms[0];
  const Value& out = schedule_.value(result);
  for (const State* term : terms) {
    demand(term->type.kind == ValueKind::gradient && term->type.unit == out.unit, "adds gradients of different units");
    demand(term->type.placement.shard == out.placement.shard && term->type.placement.partial == out.placement.partial &&
               term->type.elements == out.elements,
           "adds values of different placements");
  }
  if (terms.size() == 2) {
    const bool in_order = terms[0]->from < terms[1]->from;
    const State& early = *terms[in_order ? 0 : 1];
    const State& late = *terms[in_order ? 1 : 0];
    demand(early.covers == late.covers, "adds sums of different contributions");
    demand(early.to == late.from, "adds sums of micro-steps that are not neighbours");
    if (schedule_.policy.deterministic) {
      demand(early.to - early.from == tree_split(late.to - early.from),
             "the sum over micro-steps is not the fixed tree");
    }
    sum.from = early.from, sum.to = late.to;
  }
  write(result, std::move(sum));
}

void Interpreter::norm(const Operation& op) {
  if (op.reads.size() != 1 || op.updates.size() != 1)
    return complain("a norm reads one gradient and updates the reduced scalars");
  const State* gradient = read(op.reads[0]);
  const State* scalars = read(op.updates[0].before);
  if (gradient == nullptr || scalars == nullptr) return;
  const UnitId unit = gradient->type.unit;
  demand(gradient->type.placement.partial.empty(), "measures a gradient whose sum is not complete");
  demand(gradient->covers == parts_of(unit) && gradient->from == 0 && gradient->to == schedule_.policy.accumulation,
         "measures a gradient that does not cover everything");
  demand(owners_of(gradient->type) == schedule_.grid.world(), "each element must be measured on exactly one rank");
  State state = *scalars;
  demand(state.norms.insert(unit).second, "measures a unit twice");
  measured_[unit] = gradient->type.dtype();
  write(op.updates[0].after, std::move(state));
}

void Interpreter::clip(const Operation& op) {
  const auto trained = std::ranges::count_if(schedule_.layout.units, &Unit::trains);
  bool complete = false;
  for (const ValueId id : op.reads) {
    const State* state = read(id);
    if (state == nullptr || state->type.kind != ValueKind::scalar) continue;
    complete = state->type.placement.partial.empty() && std::ssize(state->norms) == trained &&
               state->losses == schedule_.policy.accumulation && state->has_wish;
  }
  demand(complete, "clips before loss, norm of all units and the wish to stop are summed over all ranks");
  State state;
  state.version = step_;
  for (const ValueId id : op.writes) write(id, state);
}

const Interpreter::State* Interpreter::finished_gradient(const Operation& op) {
  const State* gradient = find_read(op, ValueKind::gradient, op.unit);
  bool clipped = false;
  for (const ValueId id : op.reads) {
    const State* state = schedule_.value(id).kind == ValueKind::scalar ? read(id) : nullptr;
    clipped = clipped || (state != nullptr && state->version == applied_);
  }
  demand(clipped, "updates before the clip coefficient is known");
  if (gradient == nullptr) {
    complain("updates without a gradient");
    return nullptr;
  }
  demand(gradient->version == applied_, "updates with a gradient of another step");
  demand(gradient->type.placement.partial.empty(), "updates with a gradient whose sum is not complete");
  demand(gradient->covers == parts_of(op.unit) && gradient->from == 0 && gradient->to == schedule_.policy.accumulation,
         "updates with a gradient that does not cover everything");
  demand(measured_.contains(op.unit) && measured_[op.unit] == gradient->type.dtype(),
         "applies a gradient in another type than the norm measured");
  return gradient;
}

void Interpreter::update(const Operation& op) {
  const State* gradient = finished_gradient(op);
  if (gradient == nullptr) return;
  demand(schedule_.is_offloaded(op.unit) == (op.queue == Queue::host), "updates state where it does not rest");
  if (!schedule_.owners.empty() && schedule_.unit(op.unit).matrices_end > 0) {
    const State* direction = find_read(op, ValueKind::direction, op.unit);
    demand(direction != nullptr && direction->is_orthogonal && direction->version == step_,
           "updates matrices without their orthogonal direction of this step");
  }
  const bool in_part = op.bucket.count > 0;
  bool master = false, moments = false, done = false;
  std::vector<Update> copies;
  for (const ValueId id : op.writes) copies.push_back({{}, id});
  for (const Update& u : op.updates) {
    const State* before = read(u.before);
    if (before == nullptr) continue;
    if (before->type.kind == ValueKind::parameter) {
      copies.push_back(u);
      continue;
    }
    demand(before->version == applied_, "updates state of another version");
    demand(before->type.placement.shard == gradient->type.placement.shard, "the gradient is not split like the master");
    const bool is_master = before->type.kind == ValueKind::master;
    const UnitState& noted = schedule_.state[op.unit];
    demand((is_master ? noted.master : noted.moments) == schedule_.value(u.before).storage,
           "updates other state than what is noted of the unit");
    master = master || is_master;
    moments = moments || before->type.kind == ValueKind::moments;
    State state = *before;
    const std::int64_t elements = schedule_.state[op.unit].elements;
    demand(state.advanced == op.bucket.first && op.bucket.end() <= elements,
           "updates a bucket that does not follow those before it");
    state.advanced = op.bucket.end();
    done = !in_part || state.advanced == elements;
    if (done) state.version = applied_ + 1, state.advanced = 0;
    write(u.after, std::move(state));
  }
  demand(master && moments, "an update advances master and moments");
  demand(copies.size() <= 1, "an update makes one copy at most");
  for (const Update& copy : copies) write_cast(op, copy, gradient->type, applied_ + 1);
  if (done) demand(updated_.insert(op.unit).second, "updates a unit twice");
}

}  // namespace tessera
