#include "tessera/schedule/made_values.hpp"

#include <set>

namespace tessera {

std::vector<MadeValue> made_values(const StepSchedule& schedule, SegmentId segment) {
  std::set<ValueId> added_to;  // gradients that another part adds to
  std::vector<MadeValue> made;
  for (const OperationId id : schedule.segments[segment].operations()) {
    const Operation& op = schedule.operation(id);
    if (!computes_part(op)) continue;
    for (const Update& update : op.updates) added_to.insert(update.before);
    const auto add = [&](ValueId value) {
      const ValueKind kind = schedule.value(value).kind;
      if (kind == ValueKind::activation || kind == ValueKind::activation_gradient || kind == ValueKind::saved ||
          kind == ValueKind::gradient)
        made.push_back({id, value});
    };
    for (const ValueId value : op.writes) add(value);
    for (const Update& update : op.updates) add(update.after);
  }
  std::erase_if(made, [&](const MadeValue& one) {
    return schedule.value(one.value).kind == ValueKind::gradient && added_to.contains(one.value);
  });
  return made;
}

std::int64_t numbers_of(const StepSchedule& schedule, const Value& value) {
  if (value.kind == ValueKind::activation_gradient) return schedule.model.residual_elements();
  if (value.kind != ValueKind::saved) return value.elements;
  return schedule.part(value.part).saved[static_cast<std::size_t>(value.slot)].numbers;
}

}  // namespace tessera
