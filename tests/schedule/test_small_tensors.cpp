// shard.persistence_threshold: small tensors form a unit that stays full, whatever becomes of the others.
#include <algorithm>
#include <catch2/catch.hpp>

#include "mutants.hpp"
#include "tessera/fit/fit.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/schedule/print.hpp"
#include "tessera/schedule/verify.hpp"
#include "toy_model.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr std::int64_t kNorms = 9;  ///< above the toy's norms, of 8 elements
constexpr UnitId kSmall{0};

StepSchedule with_threshold(const SchedulePolicy& policy, std::int64_t ranks = 4) {
  return build_schedule(toy_model({.compute = policy.compute}),
                        grid_for(policy.strategy, ranks, ranks, rules_of(policy.strategy).is_hybrid() ? 2 : 0), policy);
}

/// Counts the operations of a kind in segments of a role that make a value of the small tensors.
std::int64_t count_of(const StepSchedule& s, OperationKind kind, SegmentRole role, ValueKind made) {
  std::int64_t count = 0;
  for (const Segment& segment : s.segments) {
    if (segment.role != role) continue;
    for (const OperationId id : segment.operations()) {
      const Operation& op = s.operation(id);
      if (op.kind == kind && op.unit == kSmall && s.value(op.writes.at(0)).kind == made) ++count;
    }
  }
  return count;
}

}  // namespace

TEST_CASE("small tensors are gathered after their update alone; their state and gradients stay split") {
  for (const Strategy strategy : {Strategy::zero2, Strategy::zero3, Strategy::hsdp, Strategy::hsdp_zero2}) {
    for (const Wrap wrap : {Wrap::block, Wrap::size, Wrap::model}) {
      for (const TiedReduce tied : {TiedReduce::once, TiedReduce::twice}) {
        SchedulePolicy policy;
        policy.strategy = strategy, policy.wrap = wrap, policy.tied_reduce = tied;
        policy.persistence_threshold = kNorms;
        policy.accumulation = 2;
        policy.compute = DType::bf16;
        INFO(name_of(strategy) << " wrap " << name_of(wrap));
        const StepSchedule s = with_threshold(policy);
        REQUIRE(verify_schedule(s).empty());
        CHECK(s.unit(kSmall).name == "small");
        CHECK(s.unit(kSmall).tensors.size() == 5);  // two norms per block, and the last one
        CHECK(s.wire_bytes_per_step() == formula_wire_bytes(s) - saved_bytes(s));
        for (const SegmentRole once : {SegmentRole::prologue, SegmentRole::update})
          CHECK(count_of(s, OperationKind::gather, once, ValueKind::parameter) == 1);
        for (const SegmentRole role : {SegmentRole::micro_step, SegmentRole::evaluation})
          CHECK(count_of(s, OperationKind::gather, role, ValueKind::parameter) == 0);
        // One sum a micro-step, and one over the replicas.
        CHECK(count_of(s, OperationKind::reduce_scatter, SegmentRole::micro_step, ValueKind::gradient) ==
              (rules_of(strategy).is_hybrid() ? 3 : 2));
        const std::int64_t share = s.unit(kSmall).share(s.grid.size(rules_of(strategy).state));
        for (const Value& value : s.values) {
          if (value.unit != kSmall) continue;
          if (value.kind == ValueKind::master) CHECK(value.elements == share);
          if (value.kind == ValueKind::moments) CHECK(value.elements == 2 * share);
          if (value.kind != ValueKind::parameter) continue;
          CHECK((value.placement.shard.empty() || s.operation(value.maker).kind == OperationKind::update));
          CHECK(s.storage(value.storage).always_live);
          CHECK(s.storage(value.storage).category == Category::parameters);
        }
      }
    }
  }
}

TEST_CASE("the formula takes a gather a step for what stays full, two a micro-step for the rest") {
  SchedulePolicy policy;
  policy.persistence_threshold = kNorms;
  policy.accumulation = 3;
  const StepSchedule s = with_threshold(policy);
  const std::int64_t all = s.layout.padded_elements(), small = s.unit(kSmall).padded;
  CHECK(s.layout.elements_that_stay() == small);
  CHECK(formula_wire_bytes(s) == (3 * all + 6 * (all - small) + small) / 4 * 3 * 4);
}

TEST_CASE("a threshold above all tensors leaves a tied table, which two parts read, a unit of its own") {
  SchedulePolicy policy;
  policy.persistence_threshold = 1'000'000;
  for (const Wrap wrap : {Wrap::block, Wrap::size, Wrap::model}) {
    policy.wrap = wrap;
    const StepSchedule s = with_threshold(policy);
    REQUIRE(verify_schedule(s).empty());
    REQUIRE(s.layout.units.size() == 2);
    CHECK(s.unit(UnitId(1)).tensors.size() == 1);
    CHECK(s.model.tensors[s.unit(UnitId(1)).tensors[0].tensor].is_table);
    const StepSchedule untied = build_schedule(toy_model({.tied = false}), grid_for(Strategy::zero3, 2, 2, 0), policy);
    REQUIRE(verify_schedule(untied).empty());
    CHECK(untied.layout.units.size() == 1);
  }
}

TEST_CASE("a copy that is not made again after the update, or not before the first step, is rejected") {
  SchedulePolicy policy;
  policy.persistence_threshold = kNorms;
  const StepSchedule right = with_threshold(policy);
  REQUIRE(right.prologue.size() == 1);
  StepSchedule wrong = right;
  wrong.prologue.clear();
  CHECK_FALSE(verify_schedule(wrong).empty());
  OperationId again;
  for (const OperationId id : right.operations.ids()) {
    const Operation& op = right.operation(id);
    if (op.kind == OperationKind::gather && op.unit == kSmall) again = id;
  }
  const auto problems = verify_schedule(without_operation(right, again));
  REQUIRE_FALSE(problems.empty());
  CHECK_THAT(problems.front(), Catch::Contains("small"));
}

TEST_CASE("without training what stays full rests full") {
  SchedulePolicy policy;
  policy.persistence_threshold = kNorms;
  policy.training = false;
  const StepSchedule s = with_threshold(policy);
  REQUIRE(verify_schedule(s).empty());
  std::int64_t at_rest = 0;
  for (const Storage& storage : s.storages) at_rest += storage.category == Category::parameters ? storage.bytes : 0;
  const std::int64_t small = s.unit(kSmall).padded;
  CHECK(at_rest == ((s.layout.padded_elements() - small) / 4 + small) * 4);
}

TEST_CASE("a run that does not fit is told that small tensors need not stay full") {
  RunShape shape;
  shape.architecture = preset("nano");
  shape.micro_batch = 1, shape.sequence = 16;
  shape.world = shape.ranks_per_node = 8;
  const auto bytes_of = [](const RunShape& of) {
    const PlannedRun planned = plan_shape(of, {false, 0});
    return limited_bytes(planned.schedule, planned.plan);
  };
  const std::int64_t without = bytes_of(shape);
  shape.policy.persistence_threshold = 1'000'000;
  REQUIRE(bytes_of(shape) > without);
  const FitAnswer answer = examine_fit(shape, without);
  REQUIRE_FALSE(answer.changes.empty());
  CHECK(answer.changes.front().option == "shard.persistence_threshold=0");
  CHECK(with_strategy(shape, Strategy::zero1).policy.persistence_threshold == 0);
}

TEST_CASE("the table of units says which one stays full") {
  SchedulePolicy policy;
  CHECK(print_units(with_threshold(policy)).find("stay full") == std::string::npos);
  policy.persistence_threshold = kNorms;
  CHECK(print_units(with_threshold(policy)).find("which stay full") != std::string::npos);
}

TEST_CASE("beside offloaded parameters small tensors come up once a step, after their update, and stay on the device") {
  for (const DType compute : {DType::fp32, DType::bf16}) {
    SchedulePolicy policy;
    policy.persistence_threshold = kNorms;
    policy.offload = Offload::params, policy.offload_bucket = 64;
    policy.accumulation = 2;
    policy.compute = compute;
    const StepSchedule s = with_threshold(policy);
    REQUIRE(verify_schedule(s).empty());
    REQUIRE(s.is_offloaded(kSmall));
    std::int64_t loaded = 0, on_host = 0;
    for (const Play& play : s.step) {
      for (const OperationId id : s.segments[play.segment].operations()) {
        const Operation& op = s.operation(id);
        if (op.kind != OperationKind::load || op.unit != kSmall) continue;
        loaded += copied_bytes(s, op);
        CHECK(play.segment == s.step.front().segment);
      }
    }
    CHECK(loaded == s.unit(kSmall).share(4) * size_of(compute));
    for (const Storage& storage : s.storages) {
      const bool is_state = storage.category == Category::parameters || storage.category == Category::optimizer_state;
      if (storage.space == MemorySpace::host && storage.always_live && is_state) on_host += storage.bytes;
    }
    CHECK(on_host == offload_account(s).on_host);
  }
}
