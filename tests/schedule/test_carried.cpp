// Full copies that cross the borders of segments: the first gathers of a micro-step overlap what is played before it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "mutants.hpp"
#include "schedule/liveness.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/verify.hpp"
#include "toy_model.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

StepSchedule built(const SchedulePolicy& policy, std::int64_t layers = 4) {
  ToyShape shape;
  shape.layers = layers;
  shape.compute = policy.compute;
  return build_schedule(toy_model(shape), grid_for(policy.strategy, 4, 4, 0), policy);
}

const Segment& segment_of(const StepSchedule& s, std::string_view name) {
  for (const Segment& segment : s.segments) {
    if (segment.name == name) return segment;
  }
  throw std::logic_error(fmt::format("no segment {}", name));
}

std::vector<OperationId> gathers_of(const StepSchedule& s, std::string_view segment) {
  std::vector<OperationId> gathers;
  for (const OperationId id : segment_of(s, segment).operations()) {
    if (s.operation(id).kind == OperationKind::gather) gathers.push_back(id);
  }
  return gathers;
}

/// Returns the units of gathers, in issue order: "wte wpe h.0".
std::string units_of(const StepSchedule& s, const std::vector<OperationId>& gathers) {
  std::string text;
  for (const OperationId id : gathers) text += (text.empty() ? "" : " ") + s.unit(s.operation(id).unit).name;
  return text;
}

std::string gathered_in(const StepSchedule& s, std::string_view segment) { return units_of(s, gathers_of(s, segment)); }

/// Returns the last gather of a segment that later segments read.
OperationId last_for_next(const StepSchedule& s, std::string_view segment) {
  for (const OperationId id : gathers_of(s, segment) | std::views::reverse) {
    if (s.storage_of(s.operation(id).writes.at(0)).carried) return id;
  }
  throw std::logic_error("nothing is gathered for the next segment");
}

}  // namespace

TEST_CASE("what the first operations read is gathered before the first step, and after its update") {
  SchedulePolicy policy;
  const StepSchedule s = built(policy);
  REQUIRE(verify_schedule(s).empty());
  CHECK(gathered_in(s, "prologue") == "wte wpe h.0");
  CHECK(gathered_in(s, "update") == "wte wpe h.0");
  CHECK(gathered_in(s, "micro-step") == "h.1 h.2 h.3 ln_f h.2 h.1 h.0");
  for (const OperationId id : gathers_of(s, "update")) {  // while other units are updated
    const std::vector<OperationId> waits = waits_of(s, id);
    REQUIRE(waits.size() == 1);
    CHECK((s.operation(waits[0]).kind == OperationKind::update && s.operation(waits[0]).unit == s.operation(id).unit));
  }
}

TEST_CASE("only what the first operations read is carried, for it is waited for; nothing without prefetching") {
  SchedulePolicy policy;
  policy.limit_all_gathers = 0;
  const auto carried = [&](std::int64_t distance) {
    policy.prefetch.forward = distance;
    const StepSchedule s = built(policy);
    REQUIRE(verify_schedule(s).empty());
    return s.prologue.empty() ? std::string("none") : gathered_in(s, "update");
  };
  CHECK(carried(0) == "none");
  for (const std::int64_t distance : {1, 2, 3}) CHECK(carried(distance) == "wte wpe h.0");
  const StepSchedule s = built(policy);  // the others are gathered at once, while the first block computes
  for (std::size_t i : {0, 1}) CHECK(s.operation(gathers_of(s, "micro-step").at(i)).after.empty());
  CHECK(gathered_in(s, "micro-step").starts_with("h.1 h.2"));
}

TEST_CASE("a micro-step gathers for the next one while it computes; the last one leaves that to the update") {
  SchedulePolicy policy;
  policy.accumulation = 3;
  policy.prefetch.forward = 2;
  const StepSchedule s = built(policy);
  REQUIRE(verify_schedule(s).empty());
  // h.0, which backward reads last, stays for the next forward. Tables are gathered behind the last block.
  CHECK(gathered_in(s, "micro-step last") == "h.1 h.2 h.3 ln_f h.2 h.1 h.0");
  for (const char* name : {"micro-step first", "micro-step merging 1 in place"}) {
    INFO(name);
    CHECK(gathered_in(s, name) == "h.1 h.2 h.3 ln_f h.2 h.1 h.0 wte wpe");
    const OperationId last = last_for_next(s, name);
    REQUIRE(s.operation(last).after.size() == 1);
    const Operation& after = s.operation(s.operation(last).after[0].operation);
    CHECK((after.kind == OperationKind::backward && s.part(after.part).block == 2));  // one block is between
  }
  std::int64_t saved = 0;
  for (const Saving& saving : s.savings) {
    if (saving.name() == "h.0: kept from micro-step to micro-step") saved += saving.bytes;
  }
  CHECK(saved == 2 * s.unit(UnitId(2)).padded / 4 * 3 * 4);
}

TEST_CASE("sums of micro-steps come when the next block is under way, so that its reduction has time") {
  SchedulePolicy policy;
  policy.accumulation = 2;
  const StepSchedule s = built(policy);
  REQUIRE(verify_schedule(s).empty());
  std::map<UnitId, OperationId> reduced;
  OperationId backward;
  std::int64_t seen = 0;
  for (const OperationId id : segment_of(s, "micro-step last").operations()) {
    const Operation& op = s.operation(id);
    if (op.kind == OperationKind::backward) backward = id;
    if (op.kind == OperationKind::reduce_scatter && s.unit(op.unit).is_block) reduced[op.unit] = id;
    if (op.kind != OperationKind::accumulate || !reduced.contains(op.unit) || s.unit(op.unit).name == "h.0") continue;
    CHECK(backward > reduced.at(op.unit));
    ++seen;
  }
  CHECK(seen == 3);  // h.3, h.2, h.1
}

TEST_CASE("micro-steps have names of their own, whichever comes before them") {
  SchedulePolicy policy;
  for (const std::int64_t micro_steps : {3, 8, 14, 28}) {
    policy.accumulation = micro_steps;
    const StepSchedule s = built(policy);
    REQUIRE(verify_schedule(s).empty());
    std::set<std::string> names;
    for (const Segment& segment : s.segments) CHECK(names.insert(segment.name).second);
  }
}

TEST_CASE("a model that is one unit is gathered once a step") {
  SchedulePolicy policy;
  policy.wrap = Wrap::model;
  policy.accumulation = 3;
  const StepSchedule s = built(policy);
  REQUIRE(verify_schedule(s).empty());
  CHECK(gathered_in(s, "update") == "model");
  CHECK(gathered_in(s, "micro-step first").empty());
  CHECK(gathered_in(s, "micro-step last").empty());
}

TEST_CASE("evaluation and generation read the copies that are there and leave such copies behind") {
  SchedulePolicy policy;
  const StepSchedule zero3 = built(policy);
  CHECK(gathered_in(zero3, "evaluation") == "h.1 h.2 h.3 ln_f wpe h.0");  // the head reads wte last: it stays
  policy.strategy = Strategy::zero2;
  for (const std::int64_t micro_steps : {1, 2}) {
    policy.accumulation = micro_steps;
    const StepSchedule zero2 = built(policy);
    REQUIRE(verify_schedule(zero2).empty());
    CHECK(gathered_in(zero2, "evaluation") == "h.1 h.2 h.3 ln_f");  // copies last until the update
    CHECK(gathered_in(zero2, "update") == "wte wpe h.0");
  }
  policy.generation = GenerationShape{2, 3, 7};
  for (const Strategy strategy : {Strategy::zero2, Strategy::zero3, Strategy::hsdp}) {
    policy.strategy = strategy;
    const StepSchedule s = build_schedule(generating_model(), grid_for(strategy, 4, 4, 2), policy);
    REQUIRE(verify_schedule(s).empty());
    const MemoryPlan plan = plan_memory(s, {true, 0});
    REQUIRE(check_memory_plan(s, plan).empty());
  }
}

TEST_CASE("between the last reader and the next gather the memory of a carried copy is free") {
  SchedulePolicy policy;
  policy.accumulation = 2;
  const StepSchedule s = built(policy);
  const auto present = presence_of(s);
  const auto contents = [&](std::string_view segment, const std::string& storage) {
    std::string text;
    for (const SegmentId id : s.segments.ids()) {
      if (s.segments[id].name != segment) continue;
      for (const Presence& p : present[id]) {
        if (s.storage(p.storage).name != storage) continue;
        text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", p.live_at_entry ? "in " : "", p.touches.size(),
                            p.live_at_exit ? " out" : "");
      }
    }
    return text;
  };
  CHECK(contents("prologue", "next full wte") == "1 out");
  CHECK(contents("micro-step first", "next full wte") == "in 2, 1 out");  // embedding and head; the gather
  CHECK(contents("micro-step last", "next full wte") == "in 2");
  CHECK(contents("micro-step first", "next full h.0") == "in 2, 3 out");  // kept since backward
  CHECK(contents("update", "next full wte") == "1 out");
  CHECK(contents("evaluation", "next full wte") == "in 2 out");
  policy.snapshot = true;
  const StepSchedule with_snapshot = built(policy);
  const auto of_snapshot = presence_of(with_snapshot)[with_snapshot.snapshot.at(0).segment];
  CHECK(std::ranges::count_if(of_snapshot, [&](const Presence& p) {
          return with_snapshot.storage(p.storage).name.starts_with("next full") && p.live_at_entry && p.live_at_exit;
        }) == 3);
}

TEST_CASE("copies that are stale, missing or too many are rejected") {
  SchedulePolicy policy;
  policy.accumulation = 3;
  policy.prefetch.forward = 2;
  const StepSchedule right = built(policy);
  REQUIRE(verify_schedule(right).empty());

  for (const OperationId id : gathers_of(right, "update")) {  // of the parameters before their update
    StepSchedule stale = right;
    const OperationId update = waits_of(right, id).at(0);
    stale.operations[id].reads = {right.operation(update).updates.at(0).before};
    CHECK(rejected(swapped(stale, update, id), "of version 0 in step 1"));
  }
  StepSchedule not_again = right;  // the evaluation leaves something else in their memory
  const OperationId in_evaluation = last_for_next(right, "evaluation");
  CHECK(rejected(without_operation(not_again, in_evaluation), "leaves full h.0 behind, which is not there"));

  StepSchedule no_prologue = right;
  no_prologue.prologue.clear();
  CHECK(rejected(no_prologue, "expects full wte to be there"));

  StepSchedule two = right;  // two that count
  two.layout.units[right.operation(gathers_of(right, "update").at(0)).unit].is_block = true;
  StepSchedule limited = two;
  limited.policy.limit_all_gathers = 1;
  CHECK(rejected(limited, "update: 2 block units are gathered for the next segment, the limit is 1"));

  StepSchedule nearer = two;
  nearer.policy.prefetch.forward = 1;
  CHECK(rejected(nearer, "update: 2 block units are gathered for the next segment, more than 1 units ahead"));

  StepSchedule counted = right;  // one for the next micro-step at any time
  const OperationId last = last_for_next(right, "micro-step first");
  counted.layout.units[right.operation(last).unit].is_block = true;
  counted.policy.limit_all_gathers = 0;
  StepSchedule early = counted;
  const auto waits = right.operation(last).after;  // as those before it do, first in and first out
  for (const OperationId id : gathers_of(right, "micro-step first")) {
    if (right.operation(id).after == waits) early.operations[id].after.clear();
  }
  const std::string reason = fmt::format("micro-step first, operation {}: wpe may be gathered before", last.number());
  CHECK(rejected(early, reason));
  CHECK_FALSE(rejected(counted, reason));
}

TEST_CASE("a gather for the next micro-step counts with those of this one, over the border") {
  SchedulePolicy policy;
  policy.accumulation = 3;
  policy.limit_all_gathers = 3;
  policy.prefetch.forward = policy.prefetch.backward = 3;
  StepSchedule s = built(policy, 6);
  REQUIRE(verify_schedule(s).empty());
  CHECK(gathered_in(s, "update") == "wte wpe h.0");
  s.policy.limit_all_gathers = 2;
  CHECK(rejected(s, "micro-step first"));
  CHECK(rejected(s, "3 gathered units may be alive, the limit is 2"));
}

namespace {

/// Returns the units whose gradients a segment reduces, in issue order, before its head and after it.
std::pair<std::string, std::string> reduced_in(const StepSchedule& s, std::string_view segment) {
  std::pair<std::string, std::string> units;
  bool after_head = false;
  for (const OperationId id : segment_of(s, segment).operations()) {
    const Operation& op = s.operation(id);
    after_head = after_head || op.kind == OperationKind::backward;
    std::string& text = after_head ? units.second : units.first;
    if (op.kind == OperationKind::reduce_scatter) text += (text.empty() ? "" : " ") + s.unit(op.unit).name;
  }
  return units;
}

}  // namespace

TEST_CASE("what the embedding's backward finishes is reduced while the next micro-step computes") {
  using Pair = std::pair<std::string, std::string>;
  SchedulePolicy policy;
  for (const Strategy strategy : {Strategy::zero2, Strategy::zero3}) {
    policy.strategy = strategy;
    policy.accumulation = 1;
    CHECK(reduced_in(built(policy, 2), "micro-step") == Pair("", "ln_f h.1 h.0 wpe wte"));
    policy.accumulation = 8;
    const StepSchedule s = built(policy, 2);
    REQUIRE(verify_schedule(s).empty());
    CHECK(reduced_in(s, "micro-step first") == Pair("", "ln_f h.1 h.0"));
    for (const char* name : {"micro-step merging 1", "micro-step merging 2", "micro-step merging 0 after 2"})
      CHECK(reduced_in(s, name) == Pair("wte wpe", "ln_f h.1 h.0"));
    CHECK(reduced_in(s, "micro-step last") == Pair("wte wpe", "ln_f h.1 h.0 wpe wte"));
  }
  policy.reduce_each_micro_step = false;
  CHECK(reduced_in(built(policy, 2), "micro-step first") == Pair("", ""));
}

TEST_CASE("a micro-step that makes gradients before those left to it are reduced is rejected") {
  SchedulePolicy policy;
  policy.accumulation = 3;
  const StepSchedule right = built(policy);
  const auto edges_of_head = [&](StepSchedule& s, std::string_view segment) -> std::vector<Edge>& {
    for (const OperationId id : segment_of(s, segment).operations()) {
      if (s.operation(id).kind == OperationKind::backward) return s.operations[id].after;
    }
    throw std::logic_error("no backward");
  };
  StepSchedule merging = right;  // its sums are added on the compute queue: these are waits enough
  edges_of_head(merging, "micro-step last").clear();
  CHECK(verify_schedule(merging).empty());
  StepSchedule direct = right;  // a reduction straight into the sum is waited for by none but the head
  REQUIRE(edges_of_head(direct, "micro-step merging 1 in place").size() == 2);
  edges_of_head(direct, "micro-step merging 1 in place").clear();
  CHECK(rejected(direct, "may still run when the head makes gradients"));
}
