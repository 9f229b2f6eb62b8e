// Rules for matrices that are updated as a whole: their directions, the exchange to the owners, and the one back.

#include <algorithm>

#include "schedule/verify/interpreter.hpp"

namespace tessera {

void Interpreter::direct(const Operation& op) {
  const State* gradient = finished_gradient(op);
  const State* moments = find_read(op, ValueKind::moments, op.unit);
  if (gradient == nullptr || op.writes.size() != 1) return complain("a direction is made of a gradient");
  if (moments == nullptr) return complain("a direction is made without the optimizer's state");
  demand(moments->version == step_ && moments->advanced == 0, "a direction is made of state of another version");
  const Value& out = schedule_.value(op.writes[0]);
  demand(out.kind == ValueKind::direction && out.unit == op.unit && out.dtype() == DType::fp32 &&
             out.placement.shard == gradient->type.placement.shard && out.placement.partial.empty() &&
             out.elements == directions_of(op.unit),
         "a direction is of the slice's matrices, in fp32, split like the gradient");
  write(op.writes[0], {.version = step_});
}

std::int64_t Interpreter::directions_of(UnitId unit) const {
  return std::min(schedule_.state[unit].elements, schedule_.unit(unit).matrices_end);
}

void Interpreter::need_all_matrices(const Operation& op, bool to_owners) {
  const std::int64_t members = schedule_.grid.size(op.group), share = schedule_.unit(op.unit).share(members);
  std::int64_t moved = 0, all = 0;
  for (const ExchangeRun& run : op.runs) moved += run.elements;
  for (const OwnedTensor& owned : schedule_.owners[op.unit].tensors) {
    const std::int64_t begin = schedule_.layout.offset_of[owned.tensor];
    const std::int64_t elements = schedule_.model.tensors[owned.tensor].elements;
    std::int64_t done = 0;
    for (const ExchangeRun& run : op.runs) {
      const auto [slice, owner, in_slice, in_matrices] =
          to_owners ? std::tuple(run.sender, run.receiver, run.source, run.target)
                    : std::tuple(run.receiver, run.sender, run.target, run.source);
      const std::int64_t in_tensor = in_matrices - owned.offset;
      if (owner != owned.owner || in_tensor < 0 || in_tensor >= elements) continue;
      demand(in_tensor == done && slice * share + in_slice == begin + done && in_slice + run.elements <= share,
             "an exchange moves elements to where they do not belong");
      done += run.elements;
    }
    demand(done == elements, "an exchange moves each element of the unit's matrices once");
    all += elements;
  }
  demand(moved == all, "an exchange moves nothing else than the unit's matrices");
}

void Interpreter::exchange(const Operation& op) {
  if (op.reads.size() != 1 || op.writes.size() != 1 || schedule_.owners.empty())
    return complain("an exchange reads one value and writes one");
  const State* source = read(op.reads[0]);
  if (source == nullptr) return;
  const Value& out = schedule_.value(op.writes[0]);
  const bool to_owners = source->type.kind == ValueKind::direction;
  demand(op.group == rules_of(schedule_.policy.strategy).state && schedule_.grid.size(op.group) > 1,
         "an exchange goes over the group that shares the state");
  demand(to_owners
             ? out.kind == ValueKind::matrices && !source->is_orthogonal
             : source->type.kind == ValueKind::matrices && out.kind == ValueKind::direction && source->is_orthogonal,
         "an exchange brings directions to owners, or orthogonal ones back");
  demand(out.unit == op.unit && out.dtype() == source->type.dtype() &&
             out.placement.shard == source->type.placement.shard && source->version == step_,
         "an exchange changes unit, type or step");
  const std::int64_t slice = directions_of(op.unit), owned = schedule_.owners[op.unit].elements;
  demand(source->type.elements == (to_owners ? slice : owned) && out.elements == (to_owners ? owned : slice),
         "an exchange is between a slice's matrices and the fullest owner's");
  need_all_matrices(op, to_owners);
  write(op.writes[0], *source);
}

void Interpreter::orthogonalize(const Operation& op) {
  const State* source = op.reads.size() == 1 && !op.writes.empty() ? read(op.reads[0]) : nullptr;
  if (source == nullptr) return complain("matrices are orthogonalized from one value into another");
  const Value& out = schedule_.value(op.writes[0]);
  const bool is_shared = schedule_.grid.size(rules_of(schedule_.policy.strategy).state) > 1;
  demand(source->type.kind == (is_shared ? ValueKind::matrices : ValueKind::direction) && !source->is_orthogonal &&
             source->version == step_ && source->type.unit == op.unit,
         "orthogonalizes something else than matrices of this step");
  demand(out.kind == source->type.kind && out.unit == op.unit && out.elements == source->type.elements &&
             out.dtype() == source->type.dtype(),
         "orthogonal matrices are as large as they were");
  State state = *source;
  state.is_orthogonal = true;
  write(op.writes[0], std::move(state));
  write_scratch(op, 1);
}

}  // namespace tessera
