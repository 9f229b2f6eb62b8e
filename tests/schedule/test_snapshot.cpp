// The snapshot of an asynchronous checkpoint: a segment of stores outside of the step, which it does not change.
#include <catch2/catch.hpp>
#include <set>

#include "all_policies.hpp"
#include "mutants.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/verify.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

StepSchedule with_snapshot(Strategy strategy, std::int64_t world = 4, std::int64_t group = 2) {
  SchedulePolicy policy;
  policy.strategy = strategy;
  policy.snapshot = true;
  return build_schedule(toy_model(), grid_for(strategy, world, world, group), policy);
}

/// Calls f with the operations of the snapshot.
template <class F>
void for_each_store(StepSchedule& s, F&& f) {
  const Segment& segment = s.segments[s.snapshot.at(0).segment];
  for (const OperationId id : segment.operations()) f(s.operations[id]);
}

}  // namespace

TEST_CASE("a snapshot stores every unit once, each rank its share, and is all that async adds") {
  for (const StrategyRules& rules : all_strategies()) {
    const Strategy strategy = rules.strategy;
    StepSchedule s = with_snapshot(strategy);
    INFO(name_of(strategy));
    REQUIRE(verify_schedule(s).empty());
    std::int64_t elements = 0;
    std::set<UnitId> units;
    for_each_store(s, [&](const Operation& op) {
      REQUIRE(op.kind == OperationKind::store);
      REQUIRE(op.queue == Queue::store);
      REQUIRE(op.wire_bytes == 0);
      REQUIRE(s.storage_of(op.writes.at(0)).space == MemorySpace::host);
      elements += s.value(op.writes[0]).elements;
      units.insert(op.unit);
    });
    REQUIRE(units.size() == s.layout.units.size());
    REQUIRE(elements * s.grid.world() == 3 * s.layout.padded_elements());

    SchedulePolicy policy;
    policy.strategy = strategy;
    const StepSchedule without = build_schedule(toy_model(), s.grid, policy);
    REQUIRE(s.operations.size() == without.operations.size() + units.size());
    REQUIRE(s.wire_bytes_per_step() == without.wire_bytes_per_step());
    const MemoryPlan plan = plan_memory(s), before = plan_memory(without);
    REQUIRE(plan.at(MemorySpace::device).total() == before.at(MemorySpace::device).total());
    REQUIRE(plan.at(MemorySpace::host).total() >= elements * 4);
    REQUIRE(plan.at(MemorySpace::host).own_peak[static_cast<std::size_t>(Category::optimizer_state)] == elements * 4);
  }
}

TEST_CASE("wrong snapshots are rejected") {
  const StepSchedule right = with_snapshot(Strategy::hsdp);
  REQUIRE(verify_schedule(right).empty());

  StepSchedule twice = right;
  const Segment& segment = twice.segments[twice.snapshot.at(0).segment];
  const Operation first = twice.operation(segment.first);
  Operation& second = twice.operations[segment.first + 1];
  second.unit = first.unit, second.reads = first.reads;
  CHECK(rejected(twice, "a snapshot is of the unit"));
  CHECK(rejected(twice, "stores a unit twice"));
  CHECK(rejected(twice, "is not in the snapshot"));

  StepSchedule other_moments = right;
  other_moments.operations[segment.first].reads[1] = right.operation(segment.first + 1).reads[1];
  CHECK(rejected(other_moments, "reads master and moments of its unit"));

  StepSchedule only_master = right;
  for_each_store(only_master, [](Operation& op) { op.reads.pop_back(); });
  CHECK(rejected(only_master, "reads master and moments of its unit"));

  StepSchedule every_replica = right;  // all replicas store the full slice
  for_each_store(every_replica, [&](const Operation& op) {
    Value& copy = every_replica.values[op.writes[0]];
    copy.placement.shard = copy.placement.shard.without(Group::replica);
  });
  CHECK(rejected(every_replica, "on exactly one rank"));

  StepSchedule half = right;
  for_each_store(half, [&](const Operation& op) { half.values[op.writes[0]].elements /= 2; });
  CHECK(rejected(half, "on exactly one rank"));

  StepSchedule on_device = right;
  for (Storage& storage : on_device.storages) storage.space = MemorySpace::device;
  CHECK(rejected(on_device, "lies on the host"));

  StepSchedule untyped = right;
  for (Value& value : untyped.values) {
    if (value.kind == ValueKind::snapshot) value.kind = ValueKind::scratch;
  }
  CHECK(rejected(untyped, "a snapshot is of the unit"));
}

TEST_CASE("two snapshots, or a snapshot and anything else on the host, share no bytes") {
  const StepSchedule s = with_snapshot(Strategy::zero3);
  MemoryPlan plan = plan_memory(s);
  REQUIRE(check_memory_plan(s, plan).empty());
  int moved = 0;
  for (const StorageId id : s.storages.ids()) {
    auto& offset = plan.offset[id];
    if (s.storage(id).space != MemorySpace::host || offset == 0) continue;
    const std::int64_t before = std::exchange(offset, 0);
    REQUIRE_FALSE(check_memory_plan(s, plan).empty());
    offset = before;
    ++moved;
  }
  REQUIRE(moved > 0);
}
