// The interpreter's rule of slices: what stays of full parameters.

#include "schedule/verify/interpreter.hpp"

namespace tessera {

/// Keeps a rank's part of full parameters: no other rank takes part.
void Interpreter::slice(const Operation& op) {
  if (op.reads.size() != 1 || op.writes.size() != 1) return complain("a slice reads one value and writes one");
  const State* source = read(op.reads[0]);
  if (source == nullptr) return;
  const Value& out = schedule_.value(op.writes[0]);
  demand(source->type.kind == ValueKind::parameter && source->type.shard.empty() && source->type.partial.empty(),
         "only full parameters are sliced");
  demand(op.group == Group::sub && out.shard == source->type.shard.with(op.group) && out.partial.empty(),
         "the placement is not the source's sharded over the sub-group");
  demand(out.kind == ValueKind::parameter && out.unit == source->type.unit && out.dtype == source->type.dtype &&
             out.elements * schedule_.grid.size(op.group) == source->type.elements,
         "the slice is not its rank's part of the source");
  write(op.writes[0], State(*source));
}

}  // namespace tessera
