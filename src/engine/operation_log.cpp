#include "tessera/engine/operation_log.hpp"

namespace tessera {

TimeCategory category_of(const StepSchedule& schedule, const Operation& op) {
  if (op.queue == Queue::host) return TimeCategory::exposed_other;
  switch (op.kind) {
    case OperationKind::load:
      return takes_input(op) ? TimeCategory::data : TimeCategory::exposed_other;
    case OperationKind::forward:
    case OperationKind::slice:  // a copy between two forwards
      return TimeCategory::forward;
    case OperationKind::recompute:
      return TimeCategory::recompute;
    case OperationKind::backward:
      return TimeCategory::backward;
    case OperationKind::gather:
      return schedule.communicates(op) ? TimeCategory::exposed_gather : TimeCategory::optimizer;
    case OperationKind::reduce_scatter:
      return schedule.communicates(op) ? TimeCategory::exposed_reduce_scatter : TimeCategory::optimizer;
    case OperationKind::all_reduce:
      return TimeCategory::exposed_all_reduce;
    case OperationKind::store:
      return TimeCategory::exposed_other;
    case OperationKind::accumulate:
    case OperationKind::norm:
    case OperationKind::clip:
    case OperationKind::update:
    case OperationKind::direction:
    case OperationKind::orthogonalize:
      return TimeCategory::optimizer;
    case OperationKind::exchange:
      return TimeCategory::exposed_gather;
  }
  return TimeCategory::exposed_other;
}

}  // namespace tessera
