#include "schedule/verify/limits.hpp"

#include <map>

#include "schedule/order.hpp"

namespace tessera {

namespace {

/// One segment with what the checks below ask about.
struct SegmentFacts {
  SegmentFacts(const StepSchedule& s, const Segment& in) : schedule(s), segment(in), order(s, in) {
    for (const OperationId id : segment.operations()) {
      const Operation& op = schedule.operation(id);
      for (const ValueId v : op.reads) readers[v].push_back(id);
      for (const ValueId v : touched_values(op)) {
        auto& list = touches[schedule.value(v).storage];
        if (list.empty() || list.back() != id) list.push_back(id);
      }
      const bool computes = op.kind == OperationKind::forward || op.kind == OperationKind::recompute ||
                            op.kind == OperationKind::backward;
      if (computes) compute.push_back(id);
      if (makes_full_parameters(op)) gathers.push_back(id);
    }
  }

  /// Returns whether an operation gathers a unit, or loads one that needs no gather.
  bool makes_full_parameters(const Operation& op) const {
    const bool brings = op.kind == OperationKind::gather || (op.kind == OperationKind::load && !takes_tokens(op));
    if (!brings || op.writes.empty()) return false;
    const Value& made = schedule.value(op.writes[0]);
    return made.kind == ValueKind::parameter && made.shard.empty();
  }

  /// Returns the compute operation before `id`, if any.
  OperationId compute_before(OperationId id) const {
    OperationId before;
    for (const OperationId c : compute) {
      if (c < id) before = c;
    }
    return before;
  }

  const StepSchedule& schedule;
  const Segment& segment;
  SegmentOrder order;
  std::map<ValueId, std::vector<OperationId>> readers;
  std::map<StorageId, std::vector<OperationId>> touches;
  std::vector<OperationId> compute, gathers;
};

/// Counts at each gather of a block unit: it, and those gathered before it whose last reader may still be running.
void check_gathered(const SegmentFacts& facts, std::vector<std::string>& problems) {
  const StepSchedule& s = facts.schedule;
  if (s.gather_limit <= 0) return;
  std::vector<OperationId> counted;
  for (const OperationId id : facts.gathers) {
    if (!s.unit(s.operation(id).unit).is_block) continue;
    std::int64_t alive = 1;
    for (const OperationId earlier : counted) {
      const auto of_earlier = facts.readers.find(s.operation(earlier).writes[0]);
      if (of_earlier == facts.readers.end() || !facts.order.all_before(of_earlier->second, {id})) ++alive;
    }
    if (alive > s.gather_limit) {
      problems.push_back(fmt::format("{}, operation {}: {} gathered units may be alive, the limit is {}",
                                     facts.segment.name, id, alive, s.gather_limit));
    }
    counted.push_back(id);
  }
}

/// Counts at each fresh gradient of a block unit to be reduced: it, and those before it that may still be read.
void check_gradients(const SegmentFacts& facts, std::vector<std::string>& problems) {
  const StepSchedule& s = facts.schedule;
  if (s.gradient_limit <= 0) return;
  std::vector<StorageId> counted;
  for (const OperationId id : facts.compute) {
    for (const ValueId v : s.operation(id).writes) {
      const Value& value = s.value(v);
      if (value.kind != ValueKind::gradient || !s.unit(value.unit).is_block) continue;
      std::int64_t alive = 1;
      for (const StorageId earlier : counted) {
        if (!facts.order.all_before(facts.touches.at(earlier), {id})) ++alive;
      }
      if (alive > s.gradient_limit) {
        problems.push_back(fmt::format("{}, operation {}: {} full gradients may be in flight, the limit is {}",
                                       facts.segment.name, id, alive, s.gradient_limit));
      }
      counted.push_back(value.storage);
    }
  }
}

/// Checks that a gather waits for the compute operation before the first reader of the block unit gathered `distance`
/// before it. When prefetching is off, it waits for the one before its own first reader.
void check_prefetch(const SegmentFacts& facts, std::vector<std::string>& problems) {
  const StepSchedule& s = facts.schedule;
  std::vector<OperationId> first_readers;  // of the block units gathered so far
  for (const OperationId id : facts.gathers) {
    const auto readers = facts.readers.find(s.operation(id).writes[0]);
    if (readers == facts.readers.end()) {
      problems.push_back(fmt::format("{}, operation {}: {} is gathered and never read", facts.segment.name, id,
                                     s.unit(s.operation(id).unit).name));
      continue;
    }
    const OperationId reader = readers->second.front();
    const Operation& op = s.operation(reader);
    const bool backward = op.kind != OperationKind::forward && op.part && s.part(op.part).kind != PartKind::head;
    const auto distance = static_cast<std::size_t>(backward ? s.prefetch_backward : s.prefetch_forward);
    OperationId not_before;
    if (distance == 0) {
      not_before = facts.compute_before(reader);
    } else if (first_readers.size() >= distance) {
      not_before = facts.compute_before(first_readers[first_readers.size() - distance]);
    }
    if (not_before && !facts.order.before(not_before, id)) {
      problems.push_back(
          fmt::format("{}, operation {}: {} may be gathered before operation {} has ended, more than {} units ahead",
                      facts.segment.name, id, s.unit(s.operation(id).unit).name, not_before, distance));
    }
    if (s.unit(s.operation(id).unit).is_block) first_readers.push_back(reader);
  }
}

}  // namespace

void check_limits(const StepSchedule& schedule, std::vector<std::string>& problems) {
  for (const Segment& segment : schedule.segments) {
    const bool computes =
        segment.role == SegmentRole::micro_step || segment.role == SegmentRole::evaluation || generates(segment.role);
    if (!computes) continue;
    const SegmentFacts facts(schedule, segment);
    check_gathered(facts, problems);
    check_gradients(facts, problems);
    check_prefetch(facts, problems);
  }
}

}  // namespace tessera
