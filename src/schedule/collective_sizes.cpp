#include "tessera/schedule/collective_sizes.hpp"

#include <algorithm>

namespace tessera {

LargestBuffers largest_buffers(const StepSchedule& schedule) {
  LargestBuffers largest;
  const auto bytes = [&](ValueId v) { return schedule.value(v).bytes(); };
  for (const Operation& op : schedule.operations) {
    if (!schedule.communicates(op)) continue;
    if (op.kind == OperationKind::reduce_scatter) {
      std::int64_t& contribution = largest.contribution[{op.queue, op.group}];
      contribution = std::max(contribution, bytes(op.reads[0]));
      largest.full = std::max(largest.full, contribution);
      largest.result = std::max(largest.result, bytes(op.writes[0]));
    } else if (op.kind == OperationKind::exchange) {
      largest.full = std::max(largest.full, bytes(op.reads[0]));
      largest.result = std::max(largest.result, bytes(op.writes[0]));
    } else {
      const ValueId full = op.kind == OperationKind::gather ? op.writes[0] : op.updates[0].after;
      largest.full = std::max(largest.full, bytes(full));
    }
  }
  return largest;
}

}  // namespace tessera
