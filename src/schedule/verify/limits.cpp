#include "schedule/verify/limits.hpp"

#include <algorithm>
#include <map>

#include "schedule/order.hpp"

namespace tessera {

namespace {

/// The facts about one segment that the checks below need.
struct SegmentFacts {
  SegmentFacts(const StepSchedule& s, const Segment& in)
      : schedule(s), segment(in), order(s, in), touches(touches_of(s, in)) {
    for (const OperationId id : segment.operations()) {
      const Operation& op = schedule.operation(id);
      for (const ValueId v : op.reads) readers[v].push_back(id);
      if (computes_part(op)) compute.push_back(id);
      if (makes_full_parameters(op)) gathers.push_back(id);
    }
    for (const ValueId v : segment.carried_in) {
      if (passes_by(v)) found.push_back(v);
    }
  }

  /// Returns whether a value is a full copy of a block unit that does not always stay.
  bool passes_by(ValueId v) const {
    const Value& value = schedule.value(v);
    return value.kind == ValueKind::parameter && value.placement.shard.empty() && schedule.unit(value.unit).is_block &&
           !schedule.storage_of(v).always_live;
  }

  /// Returns whether later segments find a value.
  bool is_handed_on(ValueId v) const { return std::ranges::count(segment.carried_out, v) > 0; }

  /// Returns whether the last reader of a full copy has ended before an operation.
  bool has_ended(ValueId v, OperationId before) const {
    const auto of_value = readers.find(v);
    return !is_handed_on(v) && of_value != readers.end() && order.all_before(of_value->second, {before});
  }

  /// Returns the first reader of a full copy in this segment, if any.
  OperationId first_reader(ValueId v) const {
    const auto of_value = readers.find(v);
    return of_value == readers.end() ? OperationId() : of_value->second.front();
  }

  /// Returns the number of that reader. In the next segment, whose reader is not known here, units are read in the
  /// order of their first parts.
  std::int64_t first_read(ValueId v) const {
    if (const OperationId reader = first_reader(v)) return reader.number();
    const UnitId unit = schedule.value(v).unit;
    const auto first = std::ranges::find_if(schedule.model.parts, [&](const Part& part) {
      return std::ranges::count(schedule.layout.units_of(part.tensors), unit) > 0;
    });
    return std::ssize(schedule.operations) + (first - schedule.model.parts.begin());
  }

  /// Returns whether an operation gathers a unit, or loads or updates one that needs no gather. What always stays, and
  /// the buckets that come up for it, count in no limit.
  bool makes_full_parameters(const Operation& op) const {
    const bool brings = op.kind == OperationKind::gather || op.kind == OperationKind::cast ||
                        op.kind == OperationKind::update || op.kind == OperationKind::load;
    if (!brings || op.writes.empty()) return false;
    const Value& made = schedule.value(op.writes[0]);
    const bool in_part = made.first >= 0 || (!op.reads.empty() && schedule.value(op.reads[0]).first >= 0);
    return made.kind == ValueKind::parameter && made.placement.shard.empty() && !in_part &&
           made.dtype() == schedule.gathered_type(made.unit) && !schedule.storage(made.storage).always_live;
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
  std::map<StorageId, std::vector<OperationId>> touches;
  std::map<ValueId, std::vector<OperationId>> readers;
  std::vector<OperationId> compute, gathers;
  std::vector<ValueId> found;  ///< full copies of block units that the previous segment has left
};

/// Counts, at each gather of a block unit, that unit and those before it whose last reader may still be running or is
/// in another segment.
void check_gathered(const SegmentFacts& facts, std::vector<std::string>& problems) {
  const StepSchedule& s = facts.schedule;
  if (s.policy.limit_all_gathers <= 0) return;
  std::vector<ValueId> counted = facts.found;
  for (const OperationId id : facts.gathers) {
    if (!s.unit(s.operation(id).unit).is_block) continue;
    const auto alive =
        1 + std::ranges::count_if(counted, [&](ValueId earlier) { return !facts.has_ended(earlier, id); });
    if (alive > s.policy.limit_all_gathers) {
      problems.push_back(fmt::format("{}, operation {}: {} gathered units may be alive, the limit is {}",
                                     facts.segment.name, id, alive, s.policy.limit_all_gathers));
    }
    counted.push_back(s.operation(id).writes[0]);
  }
}

/// Counts, at each fresh gradient of a block unit to be reduced, that one and those before it that may still be read.
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

/// Checks that the head begins after the reductions of gradients that the previous micro-step has left, because it
/// makes new ones.
void check_deferred(const SegmentFacts& facts, std::vector<std::string>& problems) {
  const StepSchedule& s = facts.schedule;
  const auto is_backward = [&](OperationId id) { return s.operation(id).kind == OperationKind::backward; };
  const auto head = std::ranges::find_if(facts.compute, is_backward);
  for (const ValueId v : facts.segment.carried_in) {
    const auto readers = facts.readers.find(v);
    if (s.value(v).kind != ValueKind::gradient || readers == facts.readers.end()) continue;
    for (const OperationId id : readers->second) {
      if (s.operation(id).kind != OperationKind::reduce_scatter || facts.order.before(id, *head)) continue;
      problems.push_back(
          fmt::format("{}, operation {}: may still run when the head makes gradients", facts.segment.name, id));
    }
  }
}

/// Returns the first of the last `distance` readers that come before another; the start if there are fewer.
std::int64_t reader_ahead(std::vector<std::int64_t> readers, std::int64_t of, std::size_t distance) {
  std::erase_if(readers, [&](std::int64_t reader) { return reader >= of; });
  std::ranges::sort(readers);
  return readers.size() < distance ? 0 : readers[readers.size() - distance];
}

/// Checks that a gather waits for the compute operation before the first reader of the block unit that is read
/// `distance` before its own. When prefetching is off, it waits for the one before its own first reader. Copies that
/// are found or handed on count too; the first readers of the latter are in the next segment.
void check_prefetch(const SegmentFacts& facts, std::vector<std::string>& problems) {
  const StepSchedule& s = facts.schedule;
  std::vector<std::int64_t> first_readers;  // of the block units gathered so far
  for (const ValueId v : facts.found) first_readers.push_back(facts.first_read(v));
  for (const OperationId id : facts.gathers) {
    const ValueId made = s.operation(id).writes[0];
    const OperationId reader = facts.first_reader(made);
    if (!reader && !facts.is_handed_on(made)) {
      problems.push_back(fmt::format("{}, operation {}: {} is gathered and never read", facts.segment.name, id,
                                     s.unit(s.operation(id).unit).name));
      continue;
    }
    const Operation* const reads = reader ? &s.operation(reader) : nullptr;
    const bool backward = reads != nullptr && reads->kind != OperationKind::forward && reads->part &&
                          s.part(reads->part).kind != PartKind::head;
    const auto distance = static_cast<std::size_t>(backward ? s.policy.prefetch.backward : s.policy.prefetch.forward);
    const std::int64_t own = facts.first_read(made);
    const std::int64_t of_distance = distance > 0 ? reader_ahead(first_readers, own, distance) : own;
    const bool is_here = of_distance < std::ssize(s.operations);
    const OperationId not_before = is_here ? facts.compute_before(OperationId(of_distance)) : OperationId();
    if (!is_here || (not_before && !facts.order.before(not_before, id))) {
      problems.push_back(
          fmt::format("{}, operation {}: {} may be gathered before operation {} has ended, more than {} units ahead",
                      facts.segment.name, id, s.unit(s.operation(id).unit).name,
                      not_before ? not_before : facts.segment.last(), distance));
    }
    if (s.unit(s.operation(id).unit).is_block) first_readers.push_back(own);
  }
}

/// Counts the block units that a segment without compute gathers for the next one: those ahead of its first reader.
void check_gathered_for_next(const SegmentFacts& facts, std::vector<std::string>& problems) {
  const StepSchedule& s = facts.schedule;
  const auto count = std::ranges::count_if(facts.gathers, [&](OperationId id) {
    const ValueId made = s.operation(id).writes[0];
    return facts.passes_by(made) && facts.is_handed_on(made);
  });
  if (count > s.policy.prefetch.forward)
    problems.push_back(fmt::format("{}: {} block units are gathered for the next segment, more than {} units ahead",
                                   facts.segment.name, count, s.policy.prefetch.forward));
  if (s.policy.limit_all_gathers > 0 && count > s.policy.limit_all_gathers)
    problems.push_back(fmt::format("{}: {} block units are gathered for the next segment, the limit is {}",
                                   facts.segment.name, count, s.policy.limit_all_gathers));
}

}  // namespace

void check_limits(const StepSchedule& schedule, std::vector<std::string>& problems) {
  for (const Segment& segment : schedule.segments) {
    const bool computes =
        segment.role == SegmentRole::micro_step || segment.role == SegmentRole::evaluation || generates(segment.role);
    const SegmentFacts facts(schedule, segment);
    if (!computes) {
      check_gathered_for_next(facts, problems);
      continue;
    }
    check_gathered(facts, problems);
    check_deferred(facts, problems);
    check_gradients(facts, problems);
    check_prefetch(facts, problems);
  }
}

}  // namespace tessera
