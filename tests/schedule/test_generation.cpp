// The segments of generation: in a separate schedule, and in one of a training, which does not notice them.
#include <catch2/catch.hpp>

#include "all_policies.hpp"
#include "mutants.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/print.hpp"
#include "tessera/schedule/verify.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr GenerationShape kShape{2, 3, 7};

StepSchedule schedule_of(Strategy strategy, bool training, bool generation, DType compute = DType::fp32) {
  SchedulePolicy policy;
  policy.strategy = strategy;
  policy.compute = policy.reduce = compute;
  policy.evaluation = training;
  if (generation) policy.generation = kShape;
  const ModelParts model = generating_model(compute, compute);
  return build_schedule(training ? model : frozen(model),
                        grid_for(strategy, 4, 4, rules_of(strategy).is_hybrid() ? 2 : 0), policy);
}

std::int64_t bytes_of(const StepSchedule& s, Category category, bool at_rest) {
  std::int64_t bytes = 0;
  for (const Storage& storage : s.storages) {
    if (storage.category == category && storage.always_live == at_rest && storage.space == MemorySpace::device)
      bytes += storage.bytes;
  }
  return bytes;
}

}  // namespace

TEST_CASE("without training there are parameters in the compute type and nothing else at rest") {
  for (const StrategyRules& rules : all_strategies()) {
    for (const DType compute : {DType::fp32, DType::bf16}) {
      INFO(rules.name);
      const StepSchedule s = schedule_of(rules.strategy, false, true, compute);
      REQUIRE(verify_schedule(s).empty());
      REQUIRE(check_memory_plan(s, plan_memory(s)).empty());
      REQUIRE_FALSE(s.trains());
      REQUIRE(s.segments.size() == 2);
      const bool whole = rules.life == ParameterLife::rest;
      const std::int64_t members = whole ? 1 : s.grid.size(rules.state);
      CHECK(bytes_of(s, Category::parameters, true) == s.layout.padded_elements() / members * size_of(compute));
      CHECK(bytes_of(s, Category::gradients, true) + bytes_of(s, Category::gradients, false) == 0);
      CHECK(bytes_of(s, Category::optimizer_state, true) == 0);
      bool gathers = false;
      for (const Operation& op : s.operations) gathers = gathers || op.kind == OperationKind::gather;
      CHECK(gathers == !whole);
    }
  }
}

TEST_CASE("caches hold keys and values of every position, and rest between plays") {
  const StepSchedule s = schedule_of(Strategy::zero3, false, true);
  std::int64_t caches = 0;
  for (const Segment& segment : s.segments) {
    std::int64_t in = 0, out = 0;
    const auto is_cache = [&](ValueId v) { return s.value(v).kind == ValueKind::cache; };
    in = std::ranges::count_if(segment.carried_in, is_cache),
    out = std::ranges::count_if(segment.carried_out, is_cache);
    CHECK(in == s.model.architecture.layers);
    CHECK(out == in);
    caches += in;
  }
  CHECK(caches == 4);
  const Architecture& a = s.model.architecture;
  for (const Value& value : s.values) {
    if (value.kind != ValueKind::cache) continue;
    CHECK(value.elements == 2 * kShape.batch * kShape.positions * a.kv_heads * a.head_width());
  }
}

TEST_CASE("generation leaves a training's operations as they are, and takes no memory of a step") {
  for (const StrategyRules& rules : all_strategies()) {
    INFO(rules.name);
    const StepSchedule with = schedule_of(rules.strategy, true, true),
                       without = schedule_of(rules.strategy, true, false);
    REQUIRE(verify_schedule(with).empty());
    for (const OperationId id : without.operations.ids()) {
      const Operation &a = with.operation(id), &b = without.operation(id);
      REQUIRE((a.kind == b.kind && a.queue == b.queue && a.part == b.part && a.unit == b.unit && a.reads == b.reads &&
               a.writes == b.writes && a.after == b.after));
    }
    CHECK(with.wire_bytes_per_step() == without.wire_bytes_per_step());
    // The table of angles reaches further where texts are longer than training's sequences.
    const std::int64_t angles = (kShape.positions - 5) * with.model.architecture.head_width() * 4;
    CHECK(bytes_of(with, Category::workspace, true) == bytes_of(without, Category::workspace, true) + angles);
    CHECK(bytes_of(with, Category::activations, true) == bytes_of(without, Category::activations, true));
    const MemoryPlan plan = plan_memory(with);
    REQUIRE(check_memory_plan(with, plan).empty());
  }
}

TEST_CASE("the verifier knows a cache of another part, and logits that stay on the device") {
  StepSchedule s = schedule_of(Strategy::ddp, false, true);
  REQUIRE(verify_schedule(s).empty());
  StepSchedule swapped = s;
  std::vector<Update*> updates;
  for (Operation& op : swapped.operations) {
    for (Update& u : op.updates) updates.push_back(&u);
  }
  REQUIRE(updates.size() == 4);
  std::swap(*updates[0], *updates[1]);
  CHECK(rejected(swapped, "another part's cache"));
  StepSchedule twice = s;
  for (Operation& op : twice.operations) {
    if (op.updates.empty()) continue;
    op.updates.clear();
    break;
  }
  CHECK(rejected(twice, "attention extends one cache"));
  StepSchedule on_device = s;
  for (Storage& storage : on_device.storages) storage.space = MemorySpace::device;
  CHECK(rejected(on_device, "logits"));
}

TEST_CASE("the printed schedule shows the segments of generation") {
  const StepSchedule s = schedule_of(Strategy::zero3, false, true);
  const std::string text = print_schedule(s, plan_memory(s));
  for (const char* wanted : {"prefill: played for each chunk of prompts", "decode: played for each token of a text",
                             "cache h.0.attn", "logits on the host", "store    logits", "shard h.0 -> full h.0"}) {
    INFO(wanted);
    CHECK(text.find(wanted) != std::string::npos);
  }
}
