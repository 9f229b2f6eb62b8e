#include "tessera/schedule/verify.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "schedule/liveness.hpp"
#include "schedule/order.hpp"
#include "schedule/verify/interpreter.hpp"
#include "schedule/verify/limits.hpp"
#include "tessera/schedule/formula.hpp"

namespace tessera {

namespace {

using Problems = std::vector<std::string>;

void check_edges(const StepSchedule& schedule, Problems& problems) {
  for (const Segment& segment : schedule.segments) {
    for (const OperationId id : segment.operations()) {
      for (const Edge& edge : schedule.operation(id).after) {
        if (edge.operation < segment.first || edge.operation >= id) {
          problems.push_back(fmt::format("{}, operation {}: waits for operation {}, which is not before it",
                                         segment.name, id, edge.operation));
        }
      }
    }
  }
}

bool modifies(const StepSchedule& schedule, OperationId id, StorageId storage) {
  const Operation& op = schedule.operation(id);
  const auto lies_there = [&](ValueId v) { return schedule.value(v).storage == storage; };
  return std::ranges::any_of(op.writes, lies_there) ||
         std::ranges::any_of(op.updates, [&](const Update& u) { return lies_there(u.after); });
}

/// Returns the elements of a slice that an operation touches in a storage: its bucket, or nothing if it touches the
/// whole storage.
std::optional<Bucket> touched_bucket(const StepSchedule& schedule, OperationId id, StorageId storage) {
  const Operation& op = schedule.operation(id);
  if (op.bucket.count == 0) return std::nullopt;
  for (const ValueId v : touched_values(op)) {
    if (schedule.value(v).storage == storage && schedule.value(v).first >= 0) return std::nullopt;  // a buffer
  }
  return op.bucket;
}

bool disjoint(const std::optional<Bucket>& a, const std::optional<Bucket>& b) {
  return a && b && (a->end() <= b->first || b->end() <= a->first);
}

/// Checks that two operations that touch one storage, one of them changing it, are ordered.
void check_races(const StepSchedule& schedule, Problems& problems) {
  const auto presence = presence_of(schedule);
  for (const SegmentId i : schedule.segments.ids()) {
    const SegmentOrder order(schedule, schedule.segments[i]);
    std::map<StorageId, std::vector<OperationId>> touches;
    for (const Presence& p : presence[i])
      touches[p.storage].insert(touches[p.storage].end(), p.touches.begin(), p.touches.end());
    for (const auto& [storage, by] : touches) {
      for (std::size_t a = 0; a < by.size(); ++a) {
        for (std::size_t b = a + 1; b < by.size(); ++b) {
          const OperationId x = by[a], y = by[b];
          if (!modifies(schedule, x, storage) && !modifies(schedule, y, storage)) continue;
          if (disjoint(touched_bucket(schedule, x, storage), touched_bucket(schedule, y, storage))) continue;
          if (!order.before(x, y)) {
            problems.push_back(fmt::format("{}: operations {} and {} race for {}", schedule.segments[i].name, x, y,
                                           schedule.storage(storage).name));
          }
        }
      }
    }
  }
}

/// Checks that everything that peers read or write is where they can reach it.
void check_regions(const StepSchedule& schedule, Problems& problems) {
  for (const StorageId id : schedule.storages.ids()) {
    const Storage& storage = schedule.storage(id);
    if (storage.space == MemorySpace::host && storage.region == RegionKind::shared &&
        id != schedule.reserved(Reserved::staging))
      problems.push_back(fmt::format("{} lies on the host, where no peer reaches it", storage.name));
  }
  for (const OperationId id : schedule.operations.ids()) {
    const Operation& op = schedule.operation(id);
    if (schedule.grid.size(op.group) == 1) continue;
    const bool gather = op.kind == OperationKind::gather;
    if (!gather && op.kind != OperationKind::reduce_scatter && op.kind != OperationKind::exchange) continue;
    for (const ValueId v : gather ? op.writes : op.reads) {
      if (schedule.storage_of(v).region != RegionKind::shared) {
        problems.push_back(fmt::format("operation {}: {} is not in the shared region", id, name_of_value(schedule, v)));
      }
    }
  }
}

void check_wire_bytes(const StepSchedule& schedule, Problems& problems) {
  for (const OperationId id : schedule.operations.ids()) {
    const Operation& op = schedule.operation(id);
    const bool is_exchange = op.kind == OperationKind::exchange;
    if (op.kind != OperationKind::gather && op.kind != OperationKind::reduce_scatter && !is_exchange) continue;
    if (op.reads.empty() || op.writes.empty()) continue;
    const Value& full = schedule.value(op.kind == OperationKind::gather ? op.writes[0] : op.reads[0]);
    const std::int64_t n = schedule.grid.size(op.group);
    const std::int64_t elements = is_exchange ? most_elements_sent(op.runs) : full.elements / n * (n - 1);
    const std::int64_t expected = elements * size_of(full.dtype());
    if (op.wire_bytes != expected) {
      problems.push_back(fmt::format("operation {}: {} bytes on the wire instead of {}", id, op.wire_bytes, expected));
    }
  }
  std::int64_t saved = 0;
  for (const Saving& saving : schedule.savings) saved += saving.bytes;
  const std::int64_t formula = formula_wire_bytes(schedule);
  if (schedule.wire_bytes_per_step() != formula - saved) {
    problems.push_back(fmt::format("a step sends {} bytes; the formula says {} less {} saved",
                                   schedule.wire_bytes_per_step(), formula, saved));
  }
}

void check_copied_bytes(const StepSchedule& schedule, Problems& problems) {
  const std::int64_t formula = bytes_of(copy_terms(schedule)) + bytes_of(input_copy_terms(schedule));
  std::int64_t saved = 0;
  for (const Saving& saving : schedule.copy_savings) saved += saving.bytes;
  if (schedule.copied_bytes_per_step() != formula - saved) {
    problems.push_back(fmt::format("a step copies {} bytes of what is offloaded; the formula says {} less {} saved",
                                   schedule.copied_bytes_per_step(), formula, saved));
  }
}

}  // namespace

std::vector<std::string> verify_schedule(const StepSchedule& schedule, const Poll& poll) {
  Problems problems;
  check_edges(schedule, problems);
  if (!problems.empty()) return problems;  // the order below needs edges that point backwards
  Interpreter interpreter(schedule, poll);
  interpreter.start();
  interpreter.play_prologue();
  interpreter.play_step();
  interpreter.play_finish();
  interpreter.play_snapshot();
  interpreter.play_evaluation();
  interpreter.play_generation();
  interpreter.play_step();
  if (schedule.fresh) interpreter.play_step();  // that one found no updates that were left
  interpreter.play_finish();
  interpreter.play_snapshot();
  interpreter.play_generation();
  problems = interpreter.problems();
  if (!problems.empty()) return problems;
  check_races(schedule, problems);
  check_limits(schedule, problems);
  check_inputs_in_flight(schedule, problems);
  check_regions(schedule, problems);
  check_wire_bytes(schedule, problems);
  check_copied_bytes(schedule, problems);
  return problems;
}

void require_verified(const StepSchedule& schedule, const MemoryPlan& plan, const Poll& poll) {
  Problems problems = verify_schedule(schedule, poll);
  for (std::string& problem : check_memory_plan(schedule, plan)) problems.push_back(std::move(problem));
  if (problems.empty()) return;
  std::string text;
  for (std::size_t i = 0; i < problems.size() && i < 3; ++i) text += "\n  " + problems[i];
  throw InternalError("the schedule does not verify ({} problems):{}", problems.size(), text);
}

}  // namespace tessera
