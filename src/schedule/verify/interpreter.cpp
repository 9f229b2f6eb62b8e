#include "schedule/verify/interpreter.hpp"

#include <algorithm>

namespace tessera {

Interpreter::Interpreter(const StepSchedule& schedule, const Poll& poll) : schedule_(schedule), poll_(poll) {}

void Interpreter::complain(const std::string& what) {
  const std::string where = !operation_ ? std::string("between segments")
                                        : fmt::format("{}, operation {} ({})", segment_->name, operation_,
                                                      name_of(schedule_.operation(operation_).kind));
  problems_.push_back(where + ": " + what);
}

void Interpreter::start() {
  holds_.clear();
  // Values of masters, moments and constants at any segment's start describe what those storages hold.
  for (const Segment& segment : schedule_.segments) {
    for (const ValueId id : segment.carried_in) {
      const Value& v = schedule_.value(id);
      const bool at_rest = v.kind == ValueKind::parameter && v.storage == schedule_.state[v.unit].master;
      if (v.kind == ValueKind::master || v.kind == ValueKind::moments || at_rest) holds_[v.storage] = State{.type = v};
      if (v.kind == ValueKind::constant)
        holds_[v.storage] = State{.type = v, .content = {.kind = v.kind, .slot = v.slot}};
    }
  }
  step_ = 0;
}

void Interpreter::play_prologue() {
  for (const Play& p : schedule_.prologue) play(p);
}

void Interpreter::play_step() {
  if (!schedule_.trains()) return;
  updated_.clear(), stored_.clear();
  const bool is_fresh = schedule_.fresh && !has_left_;
  for (std::size_t i = 0; i < schedule_.step.size(); ++i) {
    Play p = schedule_.step[i];
    if (i == 0 && is_fresh) p.segment = schedule_.fresh;
    applied_ = i + 1 == schedule_.step.size() ? step_ : step_ - 1;
    play(p);
    if (schedule_.segments[p.segment].role == SegmentRole::micro_step) ++micro_steps_played_;
  }
  need_updated(true, !is_fresh);
  ++step_;
  has_left_ = static_cast<bool>(schedule_.fresh);
  need_current();
}

void Interpreter::play_finish() {
  if (!has_left_) return;
  has_left_ = false;
  updated_.clear();
  applied_ = step_ - 1;
  for (const Play& p : schedule_.finish) play(p);
  need_updated(false, true);
  need_current();
}

void Interpreter::need_updated(bool on_device, bool on_host) {
  operation_ = {};
  for (const UnitId unit : schedule_.layout.units.ids()) {
    const bool is_due = schedule_.unit(unit).trains && (schedule_.is_offloaded(unit) ? on_host : on_device);
    demand(updated_.contains(unit) == is_due,
           fmt::format("unit {} was {}updated in the step", schedule_.unit(unit).name, is_due ? "not " : ""));
  }
}

void Interpreter::need_current() {
  for (const auto& [storage, state] : holds_) {
    const ValueKind kind = state.type.kind;
    const bool of_the_step = kind != ValueKind::constant && kind != ValueKind::snapshot && kind != ValueKind::logits &&
                             kind != ValueKind::token_losses && kind != ValueKind::wish;
    if (!schedule_.storage(storage).always_live || !of_the_step) continue;
    const std::int64_t wanted =
        version_of(state.type.unit) - (has_left_ && schedule_.is_offloaded(state.type.unit) ? 1 : 0);
    demand(state.version == wanted, fmt::format("{} is stale after the step (version {} of {})",
                                                schedule_.storage(storage).name, state.version, wanted));
  }
}

void Interpreter::play_evaluation() {
  for (const Play& p : schedule_.evaluation) play(p);
  ++micro_steps_played_;
}

void Interpreter::play_snapshot() {
  if (schedule_.snapshot.empty()) return;
  stored_.clear();
  for (const Play& p : schedule_.snapshot) play(p);
  operation_ = {};
  for (const UnitId unit : schedule_.layout.units.ids()) {
    const bool is_due = schedule_.unit(unit).trains;
    demand(stored_.contains(unit) == is_due,
           fmt::format("unit {} is {}in the snapshot", schedule_.unit(unit).name, is_due ? "not " : ""));
  }
}

void Interpreter::play(const Play& play) {
  if (poll_) poll_();
  segment_ = &schedule_.segments[play.segment];
  micro_step_ = play.micro_step;
  holder_.clear();
  for (const ValueId id : segment_->carried_in) {
    operation_ = {};
    const Value& v = schedule_.value(id);
    const auto held = holds_.find(v.storage);
    if (held == holds_.end()) {
      complain(fmt::format("{} expects {} to be there", segment_->name, name_of_value(schedule_, id)));
      continue;
    }
    const Value& t = held->second.type;
    demand(
        t.kind == v.kind && t.unit == v.unit && t.dtype() == v.dtype() && t.elements == v.elements &&
            t.placement.shard == v.placement.shard && t.placement.partial == v.placement.partial,
        fmt::format("{} finds {} in another placement than it expects", segment_->name, name_of_value(schedule_, id)));
    holder_[v.storage] = id;
  }
  for (const OperationId id : segment_->operations()) execute(id);
  if (segment_->role == SegmentRole::micro_step && schedule_.policy.accumulation > 1) need_wish();
  if (segment_->role == SegmentRole::evaluation) need_evaluated_loss();
  if (generates(segment_->role)) need_generated();
  // Values that are not carried end here.
  operation_ = {};
  std::set<StorageId> carried;
  for (const ValueId id : segment_->carried_out) {
    const StorageId storage = schedule_.value(id).storage;
    const auto holder = holder_.find(storage);
    demand(holder != holder_.end() && holder->second == id,
           fmt::format("{} leaves {} behind, which is not there", segment_->name, name_of_value(schedule_, id)));
    carried.insert(storage);
  }
  for (auto it = holds_.begin(); it != holds_.end();) {
    const Storage& storage = schedule_.storage(it->first);
    const bool local =
        !storage.carried || (holder_.contains(it->first) && !carried.contains(it->first) && !storage.always_live);
    it = local ? holds_.erase(it) : std::next(it);
  }
}

Interpreter::State* Interpreter::read(ValueId id) {
  const Value& v = schedule_.value(id);
  const auto holder = holder_.find(v.storage);
  if (holder == holder_.end() || holder->second != id) {
    complain(fmt::format("reads {}, which is not there", name_of_value(schedule_, id)));
    return nullptr;
  }
  return &holds_[v.storage];
}

void Interpreter::write(ValueId id, State state) {
  const Value& v = schedule_.value(id);
  if (const auto held = holds_.find(v.storage); held != holds_.end())
    demand(held->second.type.kind != ValueKind::constant,
           fmt::format("overwrites {}", schedule_.storage(v.storage).name));
  state.type = v;
  holds_[v.storage] = std::move(state);
  holder_[v.storage] = id;
}

const Interpreter::State* Interpreter::find_read(const Operation& op, ValueKind kind, UnitId unit) {
  for (const ValueId id : op.reads) {
    if (schedule_.value(id).kind == kind && schedule_.value(id).unit == unit) return read(id);
  }
  return nullptr;
}

void Interpreter::execute(OperationId id) {
  operation_ = id;
  const Operation& op = schedule_.operation(id);
  need_space(op);
  for (const ValueId v : op.reads) read(v);
  for (const Update& u : op.updates) {
    read(u.before);
    demand(schedule_.value(u.before).storage == schedule_.value(u.after).storage, "an update leaves its storage");
  }
  switch (op.kind) {
    case OperationKind::load_input:
      return load_input(op);
    case OperationKind::load:
      return load(op);
    case OperationKind::store:
      return store(op);
    case OperationKind::gather:
      return gather(op);
    case OperationKind::cast:
      return cast(op);
    case OperationKind::forward:
    case OperationKind::recompute:
    case OperationKind::backward:
      return compute(op);
    case OperationKind::reduce_scatter:
      return reduce_scatter(op);
    case OperationKind::all_reduce:
      return all_reduce(op);
    case OperationKind::accumulate:
      return accumulate(op);
    case OperationKind::norm:
      return norm(op);
    case OperationKind::clip:
      return clip(op);
    case OperationKind::update:
      return update(op);
    case OperationKind::slice:
      return slice(op);
    case OperationKind::direction:
      return direct(op);
    case OperationKind::exchange:
      return exchange(op);
    case OperationKind::orthogonalize:
      return orthogonalize(op);
    case OperationKind::magnitudes:
      return find_magnitudes(op);
  }
  complain("no rule for this operation");
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

void Interpreter::need_parameters(const Operation& op, const Part& part) {
  const bool backward_only = op.kind == OperationKind::backward && part.kind != PartKind::head;
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    if (backward_only && !part.read_in_backward[i]) continue;
    const UnitId unit = schedule_.layout.unit_of[part.tensors[i]];
    const State* state = find_read(op, ValueKind::parameter, unit);
    if (state == nullptr) state = find_read(op, ValueKind::master, unit);
    if (state == nullptr) {
      complain(fmt::format("{} runs without full {}", part.name, schedule_.unit(unit).name));
      continue;
    }
    demand(state->type.placement.shard.empty(),
           fmt::format("{} reads a slice of {}", part.name, schedule_.unit(unit).name));
    demand(state->advanced == 0, fmt::format("{} reads {}, updated in part", part.name, schedule_.unit(unit).name));
    demand(state->type.dtype() == schedule_.gathered_type(unit),
           fmt::format("{} reads {} in another type than it computes in", part.name, schedule_.unit(unit).name));
    demand(state->version == version_of(unit), fmt::format("{} reads {} of version {} in step {}", part.name,
                                                           schedule_.unit(unit).name, state->version, step_));
    need_magnitudes(op, unit);
  }
}

void Interpreter::need_content(const Operation& op, const Content& wanted) {
  for (const ValueId id : op.reads) {
    const State* state = read(id);
    if (state != nullptr && state->content == wanted) return;
  }
  for (const Update& u : op.updates) {
    const State* state = read(u.before);
    if (state != nullptr && state->content == wanted) return;
  }
  complain(fmt::format("misses its {} of part {} slot {}",
                       wanted.kind == ValueKind::saved      ? "saved value"
                       : wanted.kind == ValueKind::constant ? "constant"
                                                            : "activation, gradient or tokens",
                       wanted.part, wanted.slot));
}

void Interpreter::compute(const Operation& op) {
  const Part& part = schedule_.part(op.part);
  const bool embedding = part.kind == PartKind::embedding;
  const bool head = part.kind == PartKind::head;
  const bool backward = op.kind == OperationKind::backward;
  const std::int64_t now = micro_steps_played_;
  need_parameters(op, part);
  for (const std::int32_t number : part.constants) need_content(op, {ValueKind::constant, {}, number, -1});
  const bool generating = generates(segment_->role);
  const bool caches = generating && part.kind == PartKind::attention;
  const bool places = part.kind == PartKind::attention && (generating || schedule_.model.documents);
  if (embedding || head || places) need_content(op, {ValueKind::tokens, {}, -1, now});
  if (!embedding) need_content(op, {ValueKind::activation, op.part - 1, -1, now});
  if (backward && !head) {
    need_content(op, {ValueKind::activation_gradient, op.part, -1, now});
    for (std::size_t slot = 0; slot < part.saved.size(); ++slot) {
      need_content(op, {ValueKind::saved, op.part, static_cast<std::int32_t>(slot), now});
    }
  }
  if (head && !generating) accumulate_loss(op, backward);
  if (caches) extend_cache(op);
  if (backward) contribute(op, part);
  for (const ValueId id : op.writes) {
    const Value& v = schedule_.value(id);
    State state;
    if (v.kind == ValueKind::activation || v.kind == ValueKind::logits || v.kind == ValueKind::token_losses)
      state.content = {v.kind, op.part, -1, now};
    else if (v.kind == ValueKind::saved)
      state.content = {v.kind, op.part, v.slot, now};
    else if (v.kind == ValueKind::activation_gradient)
      state.content = {v.kind, op.part - 1, -1, now};
    else if (v.kind != ValueKind::scratch)
      continue;
    demand(v.kind != ValueKind::activation_gradient || v.elements == schedule_.model.residual_gradient_elements(),
           "the residual gradient has another size than its parts write");
    write(id, std::move(state));
  }
  for (const Update& u : op.updates) {
    if (schedule_.value(u.after).kind != ValueKind::activation_gradient) continue;
    write(u.after, {.content = {ValueKind::activation_gradient, op.part - 1, -1, now}});
  }
}

void Interpreter::accumulate_loss(const Operation& op, bool training) {
  bool counted = false;
  for (const ValueId id : op.writes) {
    if (schedule_.value(id).kind != ValueKind::scalar) continue;
    write(id, {.losses = 1});
    demand(!training || micro_step_ == 0, "the account of loss and norm starts again inside a step");
    counted = true;
  }
  for (const Update& u : op.updates) {
    if (schedule_.value(u.after).kind != ValueKind::scalar) continue;
    const State* before = read(u.before);
    if (before == nullptr) continue;
    State state = *before;
    state.losses += 1;
    write(u.after, std::move(state));
    counted = true;
  }
  demand(counted, "the head does not account its loss");
}

/// Demands the result of an evaluation: the caller reads the loss from the reduced scalars after the segment's end.
void Interpreter::need_evaluated_loss() {
  bool complete = false;
  for (const auto& [storage, state] : holds_) {
    if (state.type.kind == ValueKind::scalar && state.losses == 1)
      complete = complete || state.type.placement.partial.empty();
  }
  demand(complete, "the evaluation ends without a loss that is summed over all ranks");
  const auto is_of_tokens = [](const Value& v) { return v.kind == ValueKind::token_losses; };
  if (std::ranges::none_of(schedule_.values, is_of_tokens)) return;
  const bool stored = std::ranges::any_of(holds_, [&](const auto& held) {
    return is_of_tokens(held.second.type) && held.second.content.play == micro_steps_played_ &&
           schedule_.storage(held.first).space == MemorySpace::host;
  });
  demand(stored, "the evaluation ends without the tokens' losses on the host");
}

void Interpreter::need_wish() {
  const bool is_known = std::ranges::any_of(holds_, [&](const auto& held) {
    const State& state = held.second;
    return state.content == Content{ValueKind::wish, {}, -1, micro_steps_played_} &&
           state.type.placement.partial.empty();
  });
  demand(is_known, "ends without the wish to stop, summed over all ranks");
}

void Interpreter::write_scratch(const Operation& op, std::size_t first) {
  for (std::size_t i = first; i < op.writes.size(); ++i) {
    demand(schedule_.value(op.writes[i]).kind == ValueKind::scratch, "writes more than its result");
    write(op.writes[i], {});
  }
}

}  // namespace tessera
