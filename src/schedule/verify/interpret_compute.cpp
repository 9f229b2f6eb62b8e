// The interpreter's rules for parts: what forward, recomputation and backward read and write, and the loss.

#include <algorithm>

#include "schedule/verify/interpreter.hpp"

namespace tessera {

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

}  // namespace tessera
