#include "tessera/schedule/collective_sizes.hpp"

#include <algorithm>

namespace tessera {

LargestBuffers largest_buffers(const StepSchedule& schedule) {
  LargestBuffers largest;
  const auto bytes = [&](ValueId v) { return schedule.value(v).bytes(); };
  for (const Operation& op : schedule.operations) {
    if (!schedule.communicates(op)) continue;
    if (op.kind == OperationKind::reduce_scatter) {
      std::int64_t& contribution = largest.contribution[{op.lane, op.group}];
      contribution = std::max(contribution, bytes(op.reads[0]));
      largest.whole = std::max(largest.whole, contribution);
      largest.result = std::max(largest.result, bytes(op.writes[0]));
    } else {
      const ValueId whole = op.kind == OperationKind::gather ? op.writes[0] : op.updates[0].after;
      largest.whole = std::max(largest.whole, bytes(whole));
    }
  }
  return largest;
}

}  // namespace tessera
