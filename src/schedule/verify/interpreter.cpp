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
  // Values of masters, moments and constants at any segment's start describe what those storages hold. Of weights that
  // do not train these are parameters, and the largest magnitudes of codes.
  for (const Segment& segment : schedule_.segments) {
    for (const ValueId id : segment.carried_in) {
      const Value& v = schedule_.value(id);
      const bool at_rest = (v.kind == ValueKind::parameter && v.storage == schedule_.state[v.unit].master) ||
                           (v.kind == ValueKind::magnitudes && !schedule_.unit(v.unit).trains);
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
