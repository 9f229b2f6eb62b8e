// shard.reshard_after_forward = N: a slice of each gathered unit stays after forward, and backward gathers it within N
// ranks.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "examine_fit.hpp"
#include "mutants.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/schedule/formula.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/print.hpp"
#include "tessera/schedule/verify.hpp"
#include "toy_model.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr std::int64_t kLayers = 4;

StepSchedule resharded(std::int64_t ranks, const SchedulePolicy& policy = {}) {
  ToyShape shape;
  shape.layers = kLayers;
  shape.compute = policy.compute;
  return build_schedule(toy_model(shape), grid_for(policy.strategy, 8, 4, 0, ranks), policy);
}

/// Returns the first slice of a unit that its own segment gathers.
OperationId first_slice(const StepSchedule& s) {
  for (const OperationId id : s.operations.ids()) {
    const Operation& op = s.operation(id);
    if (op.kind == OperationKind::slice && !s.storage_of(op.reads.at(0)).carried) return id;
  }
  throw std::logic_error("the schedule has no slices");
}

/// Returns the gather that reads what an operation wrote.
OperationId gather_of(const StepSchedule& s, OperationId maker) {
  for (const OperationId id : s.operations.ids()) {
    const Operation& op = s.operation(id);
    if (op.kind == OperationKind::gather && op.reads.at(0) == s.operation(maker).writes.at(0)) return id;
  }
  throw std::logic_error("nothing gathers it");
}

std::int64_t most_gathered(const StepSchedule& s) {
  const MemoryPlan plan = plan_memory(s, {true, 0});
  REQUIRE(check_memory_plan(s, plan).empty());
  return plan.at(MemorySpace::device).own_peak[static_cast<std::size_t>(Category::gathered_units)];
}

}  // namespace

TEST_CASE("after forward 1/N of a unit stays, of which backward gathers it within the sub-group") {
  for (const DType compute : {DType::fp32, DType::bf16}) {
    SchedulePolicy policy;
    policy.compute = compute;
    policy.accumulation = 3;
    const StepSchedule s = resharded(2, policy);
    REQUIRE(verify_schedule(s).empty());
    std::map<UnitId, int> slices;
    for (const Segment& segment : s.segments) {
      const bool trains = segment.role == SegmentRole::micro_step;
      for (const OperationId id : segment.operations()) {
        const Operation& op = s.operation(id);
        if (op.kind != OperationKind::slice) continue;
        REQUIRE(trains);  // an evaluation has no backward
        ++slices[op.unit];
        CHECK((op.queue == Queue::compute && op.group == Group::sub && op.wire_bytes == 0));
        CHECK_FALSE(s.communicates(op));
        const Value& kept = s.value(op.writes.at(0));
        CHECK(kept.elements == s.unit(op.unit).padded / 2);
        CHECK(kept.dtype() == compute);
        CHECK(s.storage_of(op.writes[0]).category == Category::gathered_units);
        CHECK(name_of_value(s, op.writes[0]) == "slice " + s.unit(op.unit).name);
        const Operation& gather = s.operation(gather_of(s, id));
        CHECK((gather.unit == op.unit && gather.group == Group::sub));
        CHECK(gather.wire_bytes == s.unit(op.unit).padded / 2 * size_of(compute));
        // The copy of forward ends with its slice: nothing touches its storage later, but for the next micro-step.
        if (s.storage_of(op.reads.at(0)).carried) continue;
        for (const OperationId later : segment.operations()) {
          if (later <= id) continue;
          for (const ValueId v : touched_values(s.operation(later)))
            REQUIRE(s.value(v).storage != s.value(op.reads.at(0)).storage);
        }
      }
    }
    CHECK(slices.size() == kLayers - 1);  // backward wants the last block at once: it is kept
    for (const auto& [unit, count] : slices) CHECK(count == 3);
  }
}

TEST_CASE("gathers of slices send within N ranks: the formula by hand, and the whole group's as without slices") {
  for (const std::int64_t K : {1, 3}) {
    SchedulePolicy policy;
    policy.accumulation = K;
    const auto bytes = [&](std::int64_t ranks) {
      const StepSchedule s = resharded(ranks, policy);
      REQUIRE(s.wire_bytes_per_step() == formula_wire_bytes(s) - saved_bytes(s));
      return std::pair(formula_wire_bytes(s), s.layout.padded_elements() / 8);
    };
    const auto [two, eighth] = bytes(2);
    CHECK(two == K * 4 * eighth * (7 + 7 + 4));  // sums and gathers over 8 ranks, gathers over 2
    CHECK(bytes(4).first == K * 4 * eighth * (7 + 7 + 6));
    const StepSchedule without = resharded(0, policy);
    CHECK(formula_wire_bytes(without) == K * 4 * eighth * 3 * 7);
    policy.strategy = Strategy::hsdp;  // groups of 4: a slice over all of a group is the shard
    CHECK(bytes(4).first == bytes(0).first);
    CHECK(resharded(4, policy).wire_bytes_per_step() == resharded(0, policy).wire_bytes_per_step());
  }
}

TEST_CASE("offloaded parameters are loaded for forward alone where slices stay") {
  SchedulePolicy policy;
  policy.accumulation = 2;
  policy.offload = Offload::params;
  const auto loaded = [&](std::int64_t ranks) {
    const StepSchedule s = resharded(ranks, policy);
    REQUIRE(verify_schedule(s).empty());
    const std::vector<FormulaTerm> terms = copy_terms(s);
    REQUIRE(terms.size() == 2);
    std::int64_t saved = 0;  // the first block alone, which stays from micro-step to micro-step
    for (const Saving& saving : s.copy_savings) saved += saving.bytes;
    if (ranks > 0) CHECK(s.copied_bytes_per_step() == terms[0].bytes + terms[1].bytes - saved);
    if (ranks > 0) CHECK(s.copy_savings.size() == 1);
    return terms[1].bytes;
  };
  CHECK(loaded(0) == 2 * loaded(2));
}

TEST_CASE("slices need memory between that of keeping units and that of dropping them") {
  SchedulePolicy policy;
  policy.limit_all_gathers = 2;
  const std::int64_t dropped = most_gathered(resharded(0, policy));
  const std::int64_t over_four = most_gathered(resharded(4, policy)), over_two = most_gathered(resharded(2, policy));
  policy.reshard_after_forward = false;
  const std::int64_t kept = most_gathered(resharded(0, policy));
  CAPTURE(dropped, over_four, over_two, kept);
  CHECK(dropped < over_four);
  CHECK(over_four < over_two);
  CHECK(over_two < kept);
}

TEST_CASE("the verifier rejects slices that are not a rank's part of a unit of this step") {
  const StepSchedule right = resharded(2);
  const OperationId slice = first_slice(right), gather = gather_of(right, slice);
  const ValueId kept = right.operation(slice).writes.at(0), full = right.operation(slice).reads.at(0);
  StepSchedule wrong = right;
  wrong.operations[slice].group = Group::shard;
  CHECK(rejected(wrong, "over the sub-group"));
  wrong = right;
  wrong.values[kept].elements /= 2;
  CHECK(rejected(wrong, "not its rank's part"));
  wrong = right;
  wrong.values[kept].unit = right.operation(slice).unit + 1;
  CHECK(rejected(wrong, "not its rank's part"));
  wrong = right;
  wrong.values[kept].placement.shard = {};
  CHECK(rejected(wrong, "over the sub-group"));
  wrong = right;
  for (const ValueId v : right.values.ids()) {  // the optimizer's shard instead
    if (right.value(v).kind == ValueKind::master && right.value(v).unit == right.operation(slice).unit && v < full)
      wrong.operations[slice].reads = {v};
  }
  CHECK(rejected(wrong, "only full parameters are sliced"));
  wrong = right;  // gathered again over the whole group: more bytes than the formula says
  const Operation& before = right.operation(right.value(full).maker);
  wrong.operations[gather].reads = before.reads;
  wrong.operations[gather].group = before.group;
  wrong.operations[gather].wire_bytes = before.wire_bytes;
  CHECK(rejected(wrong, "the formula says"));
}

TEST_CASE("a printed schedule says what stays, and where it is gathered") {
  const StepSchedule s = resharded(2);
  const MemoryPlan plan = plan_memory(s, {true, 0});
  CHECK(describe_grid(s) == "zero3 over 8 ranks, 1/2 of a unit stays after forward, over 2 ranks");
  const std::string text = print_schedule(s, plan);
  CHECK(text.find("slice: what stays of a unit after forward, 1/2 of it, a gathered unit in the account") !=
        std::string::npos);
  CHECK(text.find("full h.0 (last) -> slice h.0") != std::string::npos);
  CHECK(text.find("slice h.0 (last) -> full h.0") != std::string::npos);
  CHECK(print_memory(s, plan).find("all-gather of parameters, sub-groups of 2") != std::string::npos);
  CHECK(s.hash() != resharded(4).hash());
}

TEST_CASE("a run that keeps units after forward is told how many ranks could share one") {
  RunShape shape;
  shape.architecture = preset("nano");
  shape.architecture.layers = 12;
  shape.micro_batch = 1, shape.sequence = 16;
  shape.world = 4, shape.ranks_per_node = 2;
  shape.policy.reshard_after_forward = false;
  const auto bytes_of = [](const RunShape& of) {
    const PlannedRun planned = plan_shape(of, {false, 0});
    return limited_bytes(planned.schedule, planned.plan);
  };
  RunShape over_two = shape;
  over_two.policy.reshard_after_forward = true, over_two.reshard_ranks = 2;
  RunShape dropped = over_two;
  dropped.reshard_ranks = 0;
  REQUIRE(bytes_of(dropped) < bytes_of(over_two));
  REQUIRE(bytes_of(over_two) < bytes_of(shape));
  const auto offers = [&](const RunShape& of, std::int64_t allowed, const std::string& option) {
    const FitAnswer answer = examine_fit(of, allowed);
    return std::ranges::any_of(answer.changes, [&](const FitChange& change) { return change.option == option; });
  };
  CHECK(offers(shape, bytes_of(over_two), "shard.reshard_after_forward=2"));
  CHECK(offers(shape, bytes_of(over_two), "shard.reshard_after_forward=true"));
  CHECK_FALSE(offers(shape, bytes_of(dropped), "shard.reshard_after_forward=2"));
  CHECK(offers(over_two, bytes_of(dropped), "shard.reshard_after_forward=true"));
  CHECK_FALSE(offers(over_two, bytes_of(dropped), "shard.reshard_after_forward=2"));
  CHECK(with_strategy(over_two, Strategy::hsdp).reshard_ranks == 2);
  CHECK(with_strategy(over_two, Strategy::zero2).reshard_ranks == 0);
}
