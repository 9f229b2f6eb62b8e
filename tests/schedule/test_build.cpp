#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "all_policies.hpp"
#include "tessera/kernels/reduced_scalars.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/schedule/formula.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/verify.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Requires that the schedule's notes about each unit's state agree with its operations.
void require_noted_state(const StepSchedule& schedule) {
  REQUIRE(schedule.state.size() == schedule.layout.units.size());
  for (const Segment& segment : schedule.segments) {
    for (const ValueId id : segment.carried_in) {
      const Value& value = schedule.value(id);
      if (value.kind == ValueKind::scalar && value.dtype() == DType::int64)
        REQUIRE(value.storage == schedule.reserved(Reserved::sums));
      if (!value.unit) continue;
      const UnitState& noted = schedule.state[value.unit];
      if (value.kind == ValueKind::master) {
        REQUIRE(value.storage == noted.master);
        REQUIRE(value.elements == noted.elements);
      }
      if (value.kind == ValueKind::moments) {
        REQUIRE(value.storage == noted.moments);
        const Unit& unit = schedule.unit(value.unit);
        REQUIRE(value.elements == state_elements(schedule.policy.optimizer, unit, unit.padded / noted.elements));
      }
      if (value.kind == ValueKind::gradient && segment.role == SegmentRole::update) REQUIRE(id == noted.gradient);
    }
  }
  for (const Operation& op : schedule.operations) {
    const ValueId written = op.writes.empty() ? ValueId() : op.writes[0];
    if (written && schedule.value(written).kind == ValueKind::snapshot)
      REQUIRE(schedule.value(written).storage == schedule.state[op.unit].snapshot);
  }
}

}  // namespace

TEST_CASE("every policy's schedule verifies, with its memory plan") {
  int cases = 0;
  for_each_policy([&](const PolicyCase& c) {
    ToyShape shape;
    shape.layers = 1 + cases % 4;
    shape.tied = cases % 3 != 0;
    shape.rotary = cases % 2 != 0;
    shape.compute = c.policy.compute;
    INFO(c.describe() << " layers=" << shape.layers << " tied=" << shape.tied);
    StepSchedule schedule;
    try {
      schedule = build_schedule(toy_model(shape), c.grid, c.policy);
    } catch (const UsageError& error) {
      INFO(error.what());
      REQUIRE(std::string(error.what()).find("limit_all_gathers") != std::string::npos);
      return;
    }
    const auto problems = verify_schedule(schedule);
    for (const auto& problem : problems) UNSCOPED_INFO(problem);
    REQUIRE(problems.empty());
    const MemoryPlan plan = plan_memory(schedule, {true, 0});
    REQUIRE(check_memory_plan(schedule, plan).empty());
    REQUIRE(plan.total() >= plan.lower_bound());
    require_noted_state(schedule);
    ++cases;
  });
  REQUIRE(cases > (kSanitized ? 125 : 500));
}

TEST_CASE("notes of state that name other storages are found") {
  SchedulePolicy policy;
  policy.strategy = Strategy::zero3;
  policy.snapshot = true;
  const StepSchedule schedule = build_schedule(toy_model(), grid_for(policy.strategy, 2, 2, 2), policy);
  REQUIRE(verify_schedule(schedule).empty());
  for (StorageId UnitState::*const noted : {&UnitState::master, &UnitState::moments, &UnitState::snapshot}) {
    for (const UnitId unit : schedule.layout.units.ids()) {
      StepSchedule mutant = schedule;
      mutant.state[unit].*noted = schedule.reserved(Reserved::sums);
      CHECK_FALSE(verify_schedule(mutant).empty());
    }
  }
}

TEST_CASE("the formulas are those of the design, by hand, for one padded size") {
  SchedulePolicy policy;
  policy.accumulation = 3;
  auto formula = [&](Strategy strategy, bool each, std::int64_t group) {
    policy.strategy = strategy;
    policy.reduce_each_micro_step = each;
    const StepSchedule schedule = build_schedule(toy_model(), grid_for(strategy, 4, 4, group), policy);
    return std::pair<std::int64_t, std::int64_t>{formula_wire_bytes(schedule), schedule.layout.padded_elements()};
  };
  auto check = [&](Strategy strategy, bool each, std::int64_t group, double times_P) {
    const auto [bytes, P] = formula(strategy, each, group);
    REQUIRE(static_cast<double>(bytes) == Approx(times_P * static_cast<double>(P)).epsilon(1e-12));
  };
  const double all = 4.0 * 3 / 4, half = 4.0 * 1 / 2;  // bytes an element x (n-1)/n, for n = 4 and 2
  check(Strategy::ddp, false, 4, 2 * all);
  check(Strategy::zero1, false, 4, 2 * all);
  check(Strategy::zero2, true, 4, 3 * all + all);
  check(Strategy::zero3, true, 4, 3 * 3 * all);
  check(Strategy::zero3, false, 4, 3 * 2 * all + all);
  check(Strategy::hsdp, true, 2, 3 * 3 * half + 2 * half / 2);
  check(Strategy::hsdp_zero2, true, 2, 3 * half + half + 2 * half / 2);
  check(Strategy::hsdp_zero1, false, 2, half + half + 2 * half / 2);
}

TEST_CASE("prefetch gathers the next block before the one before it is read") {
  SchedulePolicy policy;
  ToyShape shape;
  shape.layers = 4;
  auto first_wait = [&](std::int64_t depth) {
    policy.prefetch.forward = policy.prefetch.backward = depth;
    policy.limit_all_gathers = 0;
    const StepSchedule s = build_schedule(toy_model(shape), grid_for(Strategy::zero3, 2, 2, 0), policy);
    // The compute operation that the gather of block 3 waits for.
    for (const Operation& op : s.operations) {
      if (op.kind == OperationKind::gather && s.unit(op.unit).name == "h.3")
        return op.after.empty() ? std::string("start") : s.part(s.operation(op.after[0].operation).part).name;
    }
    return std::string("none");
  };
  REQUIRE(first_wait(0) == "h.2.mlp");
  REQUIRE(first_wait(1) == "h.1.mlp");
  REQUIRE(first_wait(2) == "h.0.mlp");
  REQUIRE(first_wait(3) == "embed");
  REQUIRE(first_wait(4) == "start");
}

TEST_CASE("a limit below what a part reads is refused with the least that works") {
  SchedulePolicy policy;
  policy.wrap = Wrap::size;
  policy.min_params = 200;
  policy.recomputation =
      Recomputation::all_blocks();  // the halves of a block are two units, wanted together in backward
  policy.limit_all_gathers = 1;
  REQUIRE_THROWS_AS(build_schedule(toy_model(), grid_for(Strategy::zero3, 2, 2, 0), policy), UsageError);
  policy.limit_all_gathers = 2;
  REQUIRE_NOTHROW(build_schedule(toy_model(), grid_for(Strategy::zero3, 2, 2, 0), policy));
}

TEST_CASE("losses of samples take memory at rest, and change nothing that is played or sent") {
  SchedulePolicy policy;
  policy.accumulation = 3;
  const ProcessGrid grid = grid_for(Strategy::zero3, 4, 4, 2);
  const StepSchedule without = build_schedule(toy_model(), grid, policy);
  policy.sample_losses = true;
  const StepSchedule with = build_schedule(toy_model(), grid, policy);
  CHECK_FALSE(without.reserved(Reserved::sample_losses));
  REQUIRE(with.reserved(Reserved::sample_losses));
  CHECK(with.storage(with.reserved(Reserved::sample_losses)).bytes == 8 * (1 + 4 * with.model.batch));
  CHECK(verify_schedule(with).empty());
  CHECK(with.operations.size() == without.operations.size());
  CHECK(with.wire_bytes_per_step() == without.wire_bytes_per_step());
}

TEST_CASE("norms of units take memory at rest, and change nothing that is played or sent") {
  for (const StrategyRules& rules : all_strategies()) {
    SchedulePolicy policy;
    policy.strategy = rules.strategy;
    policy.accumulation = 3;
    const ProcessGrid grid = grid_for(rules.strategy, 4, 4, 2);
    const StepSchedule without = build_schedule(toy_model(), grid, policy);
    policy.unit_norms = true;
    const StepSchedule with = build_schedule(toy_model(), grid, policy);
    INFO(name_of(rules.strategy));
    CHECK_FALSE(without.reserved(Reserved::unit_sums));
    REQUIRE(with.reserved(Reserved::unit_sums));
    CHECK(verify_schedule(with).empty());
    CHECK(with.storages.size() == without.storages.size() + 1);
    CHECK(with.storage(with.reserved(Reserved::unit_sums)).bytes ==
          static_cast<std::int64_t>(with.layout.units.size() * sizeof(ExactSum)));
    CHECK(with.operations.size() == without.operations.size());
    CHECK(with.wire_bytes_per_step() == without.wire_bytes_per_step());
    CHECK(with.hash() != without.hash());
    CHECK(plan_memory(with).total() >=
          plan_memory(without).total() + with.storage(with.reserved(Reserved::unit_sums)).bytes);
  }
}

TEST_CASE("whatever differs between two schedules changes the hash") {
  const StepSchedule schedule = build_schedule(toy_model(), grid_for(Strategy::zero3, 2, 2, 0), {});
  const auto last = schedule.operations.end_id() - 1;
  std::set<std::uint64_t> hashes{schedule.hash()};
  CHECK(build_schedule(toy_model(), schedule.grid, {}).hash() == schedule.hash());
  const auto changed = [&](auto change) {
    StepSchedule other = schedule;
    change(other);
    CHECK(hashes.insert(other.hash()).second);
  };
  changed([](StepSchedule& s) { s.policy.optimizer = OptimizerName::muon; });
  changed([](StepSchedule& s) { s.policy.offload = Offload::params; });
  changed([](StepSchedule& s) { s.policy.inputs_in_flight = 1; });
  changed([](StepSchedule& s) { s.generation_parts = GenerationParts{s.model, s.model}; });
  changed([](StepSchedule& s) { std::swap(s.reserved(Reserved::sums), s.reserved(Reserved::wish)); });
  changed([](StepSchedule& s) { std::swap(s.evaluation, s.generation); });
  changed([](StepSchedule& s) { s.values[ValueId(0)].first = 0; });
  changed([&](StepSchedule& s) { s.operations[last].bucket.first = 1; });
  changed([&](StepSchedule& s) { s.operations[last].runs.emplace_back(); });
  changed([&](StepSchedule& s) { s.operations[last].reads.emplace_back(ValueId()); });
  changed([&](StepSchedule& s) { s.operations[last].writes.emplace_back(ValueId()); });
}

TEST_CASE("a constant lies at rest, is read by every direction of its parts, and nobody may leave it out or write it") {
  ToyShape shape;
  shape.rotary = true;
  SchedulePolicy policy;
  policy.recomputation = Recomputation::all_blocks();
  const StepSchedule s = build_schedule(toy_model(shape), grid_for(Strategy::zero3, 2, 2, 0), policy);
  REQUIRE(verify_schedule(s).empty());
  std::map<OperationKind, int> readers;
  StorageId storage;
  for (const OperationId id : s.operations.ids()) {
    const Operation& op = s.operation(id);
    const auto reads = [&](ValueId v) { return s.value(v).kind == ValueKind::constant; };
    const auto place = std::find_if(op.reads.begin(), op.reads.end(), reads);
    const bool attention = op.part && s.part(op.part).kind == PartKind::attention;
    REQUIRE((place != op.reads.end()) == attention);
    if (!attention) continue;
    ++readers[op.kind];
    REQUIRE((!storage || storage == s.value(*place).storage));
    storage = s.value(*place).storage;
    StepSchedule mutant = s;
    auto& left = mutant.operations[id].reads;
    left.erase(left.begin() + (place - op.reads.begin()));
    REQUIRE_FALSE(verify_schedule(mutant).empty());
    mutant = s;  // its scratch is the constant
    for (const ValueId v : op.writes) {
      if (s.value(v).kind == ValueKind::scratch) mutant.values[v].storage = storage;
    }
    REQUIRE_FALSE(verify_schedule(mutant).empty());
  }
  REQUIRE((readers[OperationKind::forward] > 0 && readers[OperationKind::recompute] > 0));
  REQUIRE(readers[OperationKind::backward] > 0);
  REQUIRE(s.storage(storage).region == RegionKind::at_rest);
  REQUIRE(s.storage(storage).bytes == shape.sequence * shape.width * 4);
}
