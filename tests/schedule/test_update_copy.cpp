// Updates that write the 16-bit copy of their parameters: which do, and what the verifier requires.

#include <algorithm>
#include <catch2/catch.hpp>

#include "mutants.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "toy_model.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Hybrids have replicas of shard groups of two ranks, or of one.
StepSchedule built_over(const SchedulePolicy& policy, std::int64_t world) {
  const std::int64_t group = rules_of(policy.strategy).is_hybrid() ? std::min<std::int64_t>(world, 2) : 0;
  return build_schedule(toy_model({.layers = 4, .compute = policy.compute}),
                        grid_for(policy.strategy, world, world, group), policy);
}

std::vector<OperationId> in_update(const StepSchedule& s, OperationKind kind) {
  std::vector<OperationId> found;
  for (const Segment& segment : s.segments) {
    if (segment.role != SegmentRole::update) continue;
    for (const OperationId id : segment.operations()) {
      if (s.operation(id).kind == kind) found.push_back(id);
    }
  }
  return found;
}

/// Returns the units whose update writes a copy, or what is gathered after it: "wte wpe h.0".
std::string units_read_by(const StepSchedule& s, const std::vector<OperationId>& operations) {
  std::string text;
  for (const OperationId id : operations) {
    if (s.operation(id).writes.empty()) continue;
    text += (text.empty() ? "" : " ") + s.unit(s.operation(id).unit).name;
  }
  return text;
}

/// Returns a copy that an update writes.
ValueId a_copy(const StepSchedule& s) { return s.operation(in_update(s, OperationKind::update).at(0)).writes.at(0); }

}  // namespace

TEST_CASE("an update writes the 16-bit copy that stays, or that the next segment reads") {
  const std::string all = "wte wpe h.0 h.1 h.2 h.3 ln_f", first = "wte wpe h.0";
  for (const StrategyRules& rules : all_strategies()) {
    for (const std::int64_t world : {1, 2, 4}) {
      for (const std::int64_t micro_steps : {1, 2}) {
        SchedulePolicy policy;
        policy.strategy = rules.strategy, policy.accumulation = micro_steps;
        INFO(rules.name << " on " << world << " with " << micro_steps);
        CHECK(units_read_by(built_over(policy, world), in_update(built_over(policy, world), OperationKind::update))
                  .empty());
        policy.compute = policy.reduce = DType::bf16;
        const StepSchedule s = built_over(policy, world);
        REQUIRE(verify_schedule(s).empty());
        REQUIRE(check_memory_plan(s, plan_memory(s)).empty());
        const std::string units = rules.life == ParameterLife::rest ? all : first;
        CHECK(units_read_by(s, in_update(s, OperationKind::update)) == units);
        // Where the rank's slice is all there is to it, nothing follows.
        const bool is_split = s.grid.size(rules.state) > 1;
        CHECK(units_read_by(s, in_update(s, OperationKind::gather)) == (is_split ? units : ""));
        for (const OperationId id : in_update(s, OperationKind::gather)) {
          CHECK(s.gathers_in_place(s.operation(id)));
          CHECK(name_of_value(s, s.operation(id).reads[0]) == "shard of full " + s.unit(s.operation(id).unit).name);
        }
      }
    }
  }
}

TEST_CASE("a rank that has all state may keep its copies: then nothing is cast but by updates") {
  for (const StrategyRules& rules : all_strategies()) {
    SchedulePolicy policy;
    policy.strategy = rules.strategy, policy.accumulation = 2;
    policy.compute = policy.reduce = DType::bf16, policy.keeps_copies = true;
    INFO(rules.name);
    const StepSchedule s = built_over(policy, 1);
    REQUIRE(verify_schedule(s).empty());
    REQUIRE(check_memory_plan(s, plan_memory(s)).empty());
    CHECK(units_read_by(s, in_update(s, OperationKind::update)) == "wte wpe h.0 h.1 h.2 h.3 ln_f");
    for (const Segment& segment : s.segments) {
      if (segment.role == SegmentRole::prologue) continue;
      for (const OperationId id : segment.operations()) CHECK(s.operation(id).kind != OperationKind::gather);
    }
    policy.strategy = Strategy::ddp, policy.keeps_copies = false;
    policy.reduce_each_micro_step = true;
    const StepSchedule ddp = built_over(policy, 1);
    CHECK(limited_bytes(s, plan_memory(s)) == limited_bytes(ddp, plan_memory(ddp)));
  }
  SchedulePolicy split;
  split.keeps_copies = true, split.compute = DType::bf16;
  CHECK_THROWS_AS(built_over(split, 2), InternalError);
}

TEST_CASE("an update on the host writes the cast of its bucket: into a buffer, or into what each gather loads") {
  for (const Offload offload : {Offload::optimizer, Offload::params}) {
    SchedulePolicy policy;
    policy.compute = DType::bf16;
    policy.offload = offload, policy.offload_fraction = 0.3, policy.offload_bucket = 64;
    const StepSchedule s = built_over(policy, 4);
    REQUIRE(verify_schedule(s).empty());
    int into_buffer = 0, into_slice = 0, on_device = 0;
    for (const OperationId id : in_update(s, OperationKind::update)) {
      const Operation& op = s.operation(id);
      if (op.queue != Queue::host) {
        on_device += op.writes.empty() ? 0 : 1;
        continue;
      }
      REQUIRE(op.writes.size() + op.updates.size() == 3);  // master, moments and the cast
      const ValueId cast = op.writes.empty() ? op.updates.back().after : op.writes[0];
      CHECK(s.value(cast).kind == ValueKind::parameter);
      CHECK(s.value(cast).dtype() == DType::bf16);
      CHECK(s.storage_of(cast).space == MemorySpace::host);
      ++(s.value(cast).first == op.bucket.first ? into_buffer : into_slice);
    }
    CHECK(on_device > 1);
    CHECK((into_buffer > 0) == (offload == Offload::optimizer));
    CHECK((into_slice > 0) == (offload == Offload::params));
    for (const OperationId id : in_update(s, OperationKind::gather)) CHECK(s.operation(id).queue == Queue::gather);
    policy.compute = DType::fp32;
    const StepSchedule uncast = built_over(policy, 4);
    for (const OperationId id : in_update(uncast, OperationKind::update)) CHECK(uncast.operation(id).writes.empty());
  }
}

TEST_CASE("an update on the host that casts another bucket, type or placement is refused") {
  SchedulePolicy policy;
  policy.compute = DType::bf16;
  policy.offload = Offload::optimizer, policy.offload_bucket = 64;
  const StepSchedule right = built_over(policy, 4);
  REQUIRE(verify_schedule(right).empty());
  const ValueId cast = a_copy(right);
  const auto wrong = [&](auto change) {
    StepSchedule mutant = right;
    change(mutant.values[cast]);
    return mutant;
  };
  const std::string other = "casts other elements than those of its bucket";
  CHECK(rejected(wrong([](Value& v) { v.first += 64; }), other));
  CHECK(rejected(wrong([](Value& v) { v.elements /= 2; }), other));
  const std::string slice = "a cast master is a slice of parameters in the compute type";
  CHECK(rejected(wrong([](Value& v) { ++v.unit; }), slice));
  CHECK(rejected(wrong([](Value& v) { v.kind = ValueKind::master; }), slice));
  CHECK(rejected(wrong([](Value& v) { v.placement.dtype = DType::fp16; }), slice));
  CHECK(rejected(wrong([](Value& v) { v.placement.shard = {}; }), slice));
}

TEST_CASE("an update of a copy of another unit, size, type or placement is refused") {
  SchedulePolicy policy;
  policy.strategy = Strategy::zero1;
  policy.compute = DType::bf16;
  const StepSchedule right = built_over(policy, 4);
  REQUIRE(verify_schedule(right).empty());
  const ValueId copy = a_copy(right);
  const auto wrong = [&](auto change) {
    StepSchedule mutant = right;
    change(mutant.values[copy]);
    return mutant;
  };
  const std::string slice = "a cast master is a slice of parameters in the compute type";
  CHECK(rejected(wrong([](Value& v) { ++v.unit; }), slice));
  CHECK(rejected(wrong([](Value& v) { v.elements *= 2; }), "casts other elements than its slice's"));
  CHECK(rejected(wrong([](Value& v) { v.placement.dtype = DType::fp16; }), slice));
  CHECK(rejected(wrong([](Value& v) { v.kind = ValueKind::master; }), slice));
  CHECK(rejected(wrong([](Value& v) { v.placement.shard = {}; }), slice));
  StepSchedule narrow = right;
  narrow.storages[right.value(copy).storage].bytes /= 4;
  CHECK(rejected(narrow, "the slice of a copy lies in a full one"));
  StepSchedule twice = right;
  std::vector<ValueId>& written = twice.operations[right.value(copy).maker].writes;
  written.push_back(written[0]);
  CHECK(rejected(twice, "an update makes one copy at most"));
  StepSchedule missing = right;  // the gather finds what was there before the step
  missing.operations[right.value(copy).maker].writes.clear();
  CHECK(rejected(missing, "which is not there"));
}

TEST_CASE("a slice in its place in a full copy is gathered there and nowhere else") {
  SchedulePolicy policy;
  policy.compute = DType::bf16;
  const StepSchedule right = built_over(policy, 4);
  REQUIRE(verify_schedule(right).empty());
  const std::vector<OperationId> gathers = in_update(right, OperationKind::gather);
  StepSchedule elsewhere = right;
  const auto storage_of = [&](std::size_t i) {
    return right.value(right.operation(gathers.at(i)).writes.at(0)).storage;
  };
  elsewhere.values[right.operation(gathers[0]).writes[0]].storage = storage_of(1);
  CHECK(rejected(elsewhere, "gathers a slice from where it does not lie"));
  StepSchedule tight = right;  // as if the slice were all that the storage has room for
  tight.storages[storage_of(0)].bytes = right.value(right.operation(gathers[0]).reads[0]).bytes();
  CHECK(rejected(tight, "gathers a slice from where it does not lie"));
}
