#include "tessera/engine/operation_log.hpp"

#include <algorithm>

namespace tessera {

namespace {

/// Returns the name with what it moves, where no unit or part tells that: "load tokens".
std::string flight_name(const StepSchedule& schedule, const Operation& op) {
  std::string name = operation_name(schedule, op);
  if (op.unit || op.part) return name;
  if (!op.writes.empty()) return name + " " + name_of_value(schedule, op.writes[0]);
  return op.updates.empty() ? name : name + " " + name_of_value(schedule, op.updates[0].after);
}

FlightOperation flight_operation(const std::string& name, std::int64_t bytes, FlightWork work) {
  FlightOperation row;
  std::copy_n(name.begin(), std::min(name.size(), row.name.size() - 1), row.name.begin());
  row.bytes = bytes;
  row.work = work;
  return row;
}

FlightWork work_of(const StepSchedule& schedule, const Operation& op) {
  if (schedule.communicates(op)) return FlightWork::collective;
  if (takes_tokens(schedule, op)) return FlightWork::data;
  const bool copies = takes_input(op) || op.kind == OperationKind::load || op.kind == OperationKind::store;
  return copies ? FlightWork::copy : FlightWork::compute;
}

}  // namespace

std::array<int, kQueues> stream_numbers(QueueMode mode, bool one_for_all, bool copies) {
  std::array<int, kQueues> numbers{};
  if (mode == QueueMode::serial) return numbers;
  int last = one_for_all ? 1 : 0;
  for (const Queue queue : {Queue::gather, Queue::reduce, Queue::replica})
    numbers[static_cast<std::size_t>(queue)] = one_for_all ? 1 : ++last;
  if (!copies) return numbers;
  for (const Queue queue : {Queue::load, Queue::store, Queue::host}) numbers[static_cast<std::size_t>(queue)] = ++last;
  return numbers;
}

std::string operation_name(const StepSchedule& schedule, const Operation& op) {
  std::string name(name_of(op.kind));
  if (op.unit) return name + " " + schedule.unit(op.unit).name;
  return op.part ? name + " " + schedule.part(op.part).name : name;
}

std::vector<FlightOperation> flight_operations(const StepSchedule& schedule) {
  std::vector<FlightOperation> rows;
  for (const Operation& op : schedule.operations) {
    const std::int64_t bytes = op.wire_bytes > 0 ? op.wire_bytes : copied_bytes(schedule, op);
    rows.push_back(flight_operation(flight_name(schedule, op), bytes, work_of(schedule, op)));
  }
  for (const Segment& segment : schedule.segments)
    rows.push_back(flight_operation(segment.name, 0, FlightWork::compute));
  return rows;
}

TimeCategory category_of(const Operation& op) {
  if (op.queue == Queue::host) return TimeCategory::exposed_other;
  switch (op.kind) {
    case OperationKind::load_input:
      return TimeCategory::data;
    case OperationKind::load:
    case OperationKind::store:
      return TimeCategory::exposed_other;
    case OperationKind::forward:
    case OperationKind::slice:  // a copy between two forwards
      return TimeCategory::forward;
    case OperationKind::recompute:
      return TimeCategory::recompute;
    case OperationKind::backward:
      return TimeCategory::backward;
    case OperationKind::gather:
    case OperationKind::exchange:
      return TimeCategory::exposed_gather;
    case OperationKind::reduce_scatter:
      return TimeCategory::exposed_reduce_scatter;
    case OperationKind::all_reduce:
      return TimeCategory::exposed_all_reduce;
    case OperationKind::cast:
    case OperationKind::accumulate:
    case OperationKind::norm:
    case OperationKind::clip:
    case OperationKind::update:
    case OperationKind::direction:
    case OperationKind::orthogonalize:
    case OperationKind::magnitudes:
      return TimeCategory::optimizer;
  }
  return TimeCategory::exposed_other;
}

}  // namespace tessera
