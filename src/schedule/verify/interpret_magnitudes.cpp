// The interpreter's rules for the largest magnitudes of weights that linears read in fp8.

#include "schedule/verify/interpreter.hpp"

namespace tessera {

/// Finds those of a slice of parameters, which are complete once all slices have been looked at.
void Interpreter::find_magnitudes(const Operation& op) {
  const State* source = op.reads.size() == 1 && op.writes.size() == 1 ? read(op.reads[0]) : nullptr;
  if (source == nullptr) return complain("magnitudes are found in one value and written to one");
  const Value& from = source->type;
  demand(
      (from.kind == ValueKind::master || from.kind == ValueKind::parameter) && from.unit == op.unit && from.first < 0,
      "magnitudes are those of all parameters of the unit that this rank keeps");
  demand(source->advanced == 0, "finds magnitudes in a slice that is updated in part");
  const Value& out = schedule_.value(op.writes[0]);
  demand(out.kind == ValueKind::magnitudes && out.unit == op.unit && out.dtype() == DType::int64 &&
             out.elements == std::ssize(schedule_.unit(op.unit).fp8_weights),
         "writes something else than one magnitude for each weight of the unit");
  demand(out.placement.shard.empty() && out.placement.partial == from.placement.shard,
         "magnitudes of a slice are partial over the groups that share the unit");
  write(op.writes[0], {.version = source->version});
}

void Interpreter::load_magnitudes(const Operation& op) {
  const State* source = read(op.reads[0]);
  if (source == nullptr || op.writes.size() != 1) return complain("magnitudes are loaded into one value");
  const Value &from = source->type, &out = schedule_.value(op.writes[0]);
  demand(out.kind == from.kind && out.unit == from.unit && out.elements == from.elements &&
             out.placement == from.placement,
         "loads magnitudes as something else");
  write(op.writes[0], *source);
}

bool Interpreter::need_codes(const Operation& op, const State& source) {
  if (schedule_.value(op.writes[0]).dtype() != DType::e4m3 || source.type.dtype() == DType::e4m3) return false;
  const State* state = find_read(op, ValueKind::magnitudes, source.type.unit);
  demand(state != nullptr && state->type.placement.partial.empty() && state->version == source.version,
         "makes codes without the largest magnitudes of what it reads");
  return true;
}

void Interpreter::need_magnitudes(const Operation& op, UnitId unit) {
  if (!schedule_.unit(unit).is_fp8()) return;
  const State* state = find_read(op, ValueKind::magnitudes, unit);
  const std::string& name = schedule_.unit(unit).name;
  if (state == nullptr) return complain(fmt::format("reads {} without its largest magnitudes", name));
  demand(state->type.placement.partial.empty(), fmt::format("reads magnitudes of slices of {}", name));
  demand(state->version == version_of(unit),
         fmt::format("reads magnitudes of {} of version {} in step {}", name, state->version, step_));
}

}  // namespace tessera
