// The interpreter's rules for generation: caches that grow by one play at a time, and logits that reach the host.

#include "schedule/verify/interpreter.hpp"

namespace tessera {

void Interpreter::play_generation() {
  const auto drop_caches = [&] {
    std::erase_if(holds_, [](const auto& held) { return held.second.type.kind == ValueKind::cache; });
  };
  drop_caches();
  generation_plays_ = 0;
  for (const Segment& segment : schedule_.segments) {
    for (const ValueId id : segment.carried_in) {
      const Value& v = schedule_.value(id);
      if (v.kind == ValueKind::cache) holds_[v.storage] = State{.type = v};
    }
  }
  for (const Play& p : schedule_.generation) {
    for (int twice = 0; twice < 2; ++twice) {
      play(p);
      ++micro_steps_played_, ++generation_plays_;
    }
  }
  drop_caches();
}

void Interpreter::store_result(const Operation& op) {
  if (op.reads.size() != 1 || op.writes.size() != 1)
    return complain("a store of what the head made reads one value and writes one");
  const State* source = read(op.reads[0]);
  if (source == nullptr) return;
  const Value& out = schedule_.value(op.writes[0]);
  const ValueKind kind = source->type.kind;
  demand(kind == ValueKind::logits || kind == ValueKind::token_losses, "only logits and losses of tokens are stored");
  demand(out.kind == kind && out.dtype() == source->type.dtype() && out.elements == source->type.elements &&
             schedule_.storage_of(op.writes[0]).space == MemorySpace::host,
         "the copy is of the same kind, type and size, and lies on the host");
  write(op.writes[0], {.content = source->content});
}

void Interpreter::extend_cache(const Operation& op) {
  int extended = 0;
  for (const Update& u : op.updates) {
    if (schedule_.value(u.after).kind != ValueKind::cache) continue;
    const State* before = read(u.before);
    if (before == nullptr) continue;
    demand(before->type.part == op.part && schedule_.value(u.after).part == op.part, "extends another part's cache");
    demand(before->version == generation_plays_, "extends a cache that lacks a play");
    State state = *before;
    state.version += 1;
    write(u.after, std::move(state));
    ++extended;
  }
  demand(extended == 1, "attention extends one cache in generation");
}

/// Demands the results of generation: logits that the host can read, and caches for the next play.
void Interpreter::need_generated() {
  operation_ = {};
  bool made = false;
  std::set<PartId> caches;
  for (const auto& [storage, state] : holds_) {
    if (state.type.kind == ValueKind::cache && state.version == generation_plays_ + 1) caches.insert(state.type.part);
    made = made || (state.type.kind == ValueKind::logits && state.content.play == micro_steps_played_ &&
                    schedule_.storage(storage).space == MemorySpace::host);
  }
  demand(made, segment_->name + " ends without logits on the host");
  for (const PartId id : schedule_.model.parts.ids()) {
    if (schedule_.part(id).kind != PartKind::attention) continue;
    demand(caches.contains(id),
           fmt::format("{} ends without the cache of {}", segment_->name, schedule_.part(id).name));
  }
}

}  // namespace tessera
