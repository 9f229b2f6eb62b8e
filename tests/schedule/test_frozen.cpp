// Units that do not train: only their parameters are kept, and only what others need is computed and sent.
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "all_policies.hpp"
#include "mutants.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/verify.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr OperationKind kOfFrozen[] = {OperationKind::gather, OperationKind::cast, OperationKind::slice};

/// Requires that nothing is kept or done of units that do not train but what others need.
void require_only_parameters(const StepSchedule& s) {
  for (const UnitId unit : s.layout.units.ids()) {
    const UnitState& state = s.state[unit];
    REQUIRE(state.master);
    if (s.unit(unit).trains) continue;
    REQUIRE_FALSE((state.moments || state.snapshot || state.gradient || s.is_offloaded(unit)));
  }
  for (const Operation& op : s.operations) {
    const bool is_frozen = op.unit && !s.unit(op.unit).trains;
    if (is_frozen) REQUIRE(std::ranges::find(kOfFrozen, op.kind) != std::end(kOfFrozen));
    const bool in_backward = op.kind == OperationKind::backward || op.kind == OperationKind::recompute;
    if (in_backward) REQUIRE(op.part >= s.model.first_trained());
  }
  for (const Value& value : s.values) {
    const bool is_frozen = value.unit && !s.unit(value.unit).trains;
    if (is_frozen) REQUIRE(value.kind == ValueKind::parameter);
  }
}

}  // namespace

TEST_CASE("whichever units are frozen, a schedule verifies, is smaller and moves fewer bytes") {
  int cases = 0, drawn = 0;
  for_each_policy(
      [&](PolicyCase c) {
        c.policy.offload_fraction = 1;  // less is rounded up to other units
        ToyShape shape;
        shape.layers = 1 + drawn % 4;
        shape.tied = drawn % 3 != 0;
        shape.compute = c.policy.compute;
        const int which = drawn++ % 4;
        const ModelParts model = toy_model(shape);
        const ModelParts frozen = with_frozen_units(model, c.policy, [&](UnitId unit, std::size_t units) {
          if (which < 2) return unit.number() % 2 == which;  // every second one
          return unit.number() == (which == 2 ? 0 : static_cast<int>(units) - 1);
        });
        const auto trains = std::ranges::count_if(frozen.tensors, &ParameterTensor::trains);
        if (trains == 0 || trains == std::ssize(frozen.tensors)) return;
        INFO(c.describe() << " layers=" << shape.layers << " tied=" << shape.tied << " which=" << which);
        StepSchedule all, some;
        try {
          all = build_schedule(model, c.grid, c.policy);
          some = build_schedule(frozen, c.grid, c.policy);
        } catch (const UsageError&) {
          return;
        }
        const auto problems = verify_schedule(some);
        for (const auto& problem : problems) UNSCOPED_INFO(problem);
        REQUIRE(problems.empty());
        const MemoryPlan plan = plan_memory(some, {true, 0});
        REQUIRE(check_memory_plan(some, plan).empty());
        require_only_parameters(some);
        REQUIRE(plan.total() < plan_memory(all, {true, 0}).total());
        REQUIRE(some.wire_bytes_per_step() <= all.wire_bytes_per_step());
        if (c.grid.world() > 1) REQUIRE(some.wire_bytes_per_step() < all.wire_bytes_per_step());
        REQUIRE(some.copied_bytes_per_step() <= all.copied_bytes_per_step());
        ++cases;
      },
      8);
  REQUIRE(cases > (kSanitized ? 100 : 200));
}

TEST_CASE("backward ends at the lowest unit that trains, and gathers only what it needs") {
  SchedulePolicy policy;
  ToyShape shape;
  shape.layers = 4;
  const ModelParts model = with_frozen_units(toy_model(shape), policy, [](UnitId unit, std::size_t) {
    return unit.number() < 4 || unit.number() == 5;  // tables, h.0, h.1 and h.3; h.2 and the last norm train
  });
  const StepSchedule s = build_schedule(model, grid_for(Strategy::zero3, 2, 2, 0), policy);
  REQUIRE(verify_schedule(s).empty());
  std::vector<std::string> backward, gathered;
  for (const OperationId id : s.segments[s.step.front().segment].operations()) {
    const Operation& op = s.operation(id);
    if (op.kind == OperationKind::backward) backward.push_back(s.part(op.part).name);
    if (op.kind == OperationKind::gather) gathered.push_back(s.unit(op.unit).name);
  }
  CHECK(backward == std::vector<std::string>{"head", "h.3.mlp", "h.3.attn", "h.2.mlp", "h.2.attn"});
  // h.2 is there again for its own gradient; h.3 stays from forward, and the others are not read a second time.
  const auto times = [&](const char* unit) { return std::ranges::count(gathered, unit); };
  UNSCOPED_INFO(fmt::format("{}", fmt::join(gathered, " ")));
  CHECK((times("h.0") <= 1 && times("h.1") == 1 && times("h.2") == 2 && times("h.3") == 1));
}

TEST_CASE("weights in fp8 that do not train are kept as codes, with their largest magnitudes") {
  const bool anything_trains = GENERATE(true, false);
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero1, Strategy::zero3, Strategy::hsdp}) {
    INFO(name_of(strategy) << " " << anything_trains);
    SchedulePolicy policy;
    policy.strategy = strategy, policy.compute = DType::bf16;
    const ModelParts model = with_frozen_units(in_fp8(toy_model()), policy, [&](UnitId unit, std::size_t units) {
      return !anything_trains || unit.number() + 1 < static_cast<int>(units);  // the last norm trains
    });
    const StepSchedule right = build_schedule(model, grid_for(strategy, 4, 2, 2), policy);
    REQUIRE(verify_schedule(right).empty());
    int kept = 0;
    for (const UnitId id : right.layout.units.ids()) {
      if (!right.unit(id).is_fp8()) continue;
      const UnitState& state = right.state[id];
      CHECK(right.storage(state.master).bytes == state.elements);
      CHECK(right.storage(state.magnitudes).bytes == std::ssize(right.unit(id).fp8_weights) * size_of(DType::int64));
      ++kept;
    }
    CHECK(kept > 1);
    for (const Operation& op : right.operations) {
      CHECK(op.kind != OperationKind::magnitudes);
      if (op.kind == OperationKind::cast) CHECK_FALSE(right.unit(op.unit).is_fp8());
    }
    StepSchedule mutant = right;
    const auto reader = std::ranges::find_if(mutant.operations, [&](const Operation& op) {
      return op.kind == OperationKind::forward &&
             std::ranges::any_of(op.reads, [&](ValueId v) { return right.value(v).kind == ValueKind::magnitudes; });
    });
    REQUIRE(reader != mutant.operations.end());
    std::erase_if(reader->reads, [&](ValueId v) { return right.value(v).kind == ValueKind::magnitudes; });
    CHECK(rejected(mutant, "without its largest magnitudes"));
  }
}
