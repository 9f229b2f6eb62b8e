// Inputs of recomputed blocks that wait for backward on the host: which, when they go and come, what they cost.
#include <catch2/catch.hpp>

#include "mutants.hpp"
#include "schedule/liveness.hpp"
#include "tessera/fit/decide_fit.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/schedule/formula.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/planned_run.hpp"
#include "tessera/schedule/print.hpp"
#include "tessera/schedule/verify.hpp"
#include "toy_model.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

using Names = std::vector<std::string>;

SchedulePolicy policy_of(const Recomputation& recomputation) {
  SchedulePolicy policy;
  policy.recomputation = recomputation;
  policy.offload_activations = true;
  return policy;
}

StepSchedule schedule_of(const SchedulePolicy& policy, std::int64_t layers = 4, std::int64_t world = 2) {
  ToyShape shape;
  shape.layers = layers;
  shape.compute = policy.compute;
  const std::int64_t group = rules_of(policy.strategy).is_hybrid() ? 1 : 0;
  return build_schedule(toy_model(shape), grid_for(policy.strategy, world, world, group), policy);
}

/// The activations that a segment copies, in the order of the list: "h.0.mlp".
Names copied(const StepSchedule& s, SegmentId segment, OperationKind kind) {
  Names names;
  for (const OperationId id : s.segments[segment].operations()) {
    const Operation& op = s.operation(id);
    if (op.kind == kind && op.part) names.push_back(s.part(op.part).name);
  }
  return names;
}

Names copied(const StepSchedule& s, OperationKind kind) { return copied(s, s.step[0].segment, kind); }

OperationId find(const StepSchedule& s, OperationKind kind, const std::string& part) {
  for (const OperationId id : s.operations.ids()) {
    const Operation& op = s.operation(id);
    if (op.kind == kind && op.part && s.part(op.part).name == part) return id;
  }
  throw InternalError("no such operation");
}

constexpr auto kStore = OperationKind::store;
constexpr auto kLoad = OperationKind::load;

}  // namespace

TEST_CASE("what a recompute starts from goes out in forward and comes back in the order of backward") {
  const StepSchedule both = schedule_of(policy_of(Recomputation::all_blocks()));
  CHECK(copied(both, kStore) == Names{"embed", "h.0.mlp", "h.1.mlp"});  // h.2.mlp is wanted right after the head
  CHECK(copied(both, kLoad) == Names{"h.1.mlp", "h.0.mlp", "embed"});
  const StepSchedule mlp = schedule_of(policy_of({false, true, 1, 1, {}}));
  CHECK(copied(mlp, kStore) == Names{"h.0.attn", "h.1.attn", "h.2.attn"});
  const StepSchedule attention = schedule_of(policy_of({true, false, 1, 1, {}}));
  CHECK(copied(attention, kStore) == Names{"embed", "h.0.mlp", "h.1.mlp", "h.2.mlp"});
  CHECK(copied(attention, kLoad) == Names{"h.2.mlp", "h.1.mlp", "h.0.mlp", "embed"});
  const StepSchedule some = schedule_of(policy_of({true, true, 1, 1, {0, 2}}));
  CHECK(copied(some, kStore) == Names{"embed", "h.1.mlp"});
  const StepSchedule half = schedule_of(policy_of({true, true, 1, 2, {}}));
  CHECK(copied(half, kStore) == Names{"h.0.mlp"});
  CHECK(copied(schedule_of(policy_of({})), kStore).empty());
  CHECK_FALSE(copies_in_steps(schedule_of(policy_of({}))));
}

TEST_CASE("the copies' bytes are the formula's, under every strategy, and the schedule proves") {
  for (const StrategyRules& rules : all_strategies()) {
    for (const Recomputation& recomputation :
         {Recomputation::all_blocks(), Recomputation{true, false, 1, 1, {}}, Recomputation{false, true, 2, 3, {}}}) {
      for (const std::int64_t accumulation : {1, 3}) {
        SchedulePolicy policy = policy_of(recomputation);
        policy.strategy = rules.strategy;
        policy.accumulation = accumulation;
        policy.compute = policy.reduce = accumulation == 1 ? DType::fp32 : DType::bf16;
        INFO(rules.name << " " << describe(recomputation) << " K " << accumulation);
        const StepSchedule s = schedule_of(policy);
        REQUIRE(verify_schedule(s).empty());
        const std::int64_t inputs = inputs_to_offload(recomputation, 4);
        REQUIRE(std::ssize(copied(s, kStore)) == inputs);
        REQUIRE(s.copied_bytes_per_step() ==
                2 * accumulation * inputs * s.model.residual_elements() * size_of(policy.compute));
        REQUIRE(check_memory_plan(s, plan_memory(s)).empty());
      }
    }
  }
}

TEST_CASE("an evaluation and a text take nothing out") {
  SchedulePolicy policy = policy_of(Recomputation::all_blocks());
  policy.generation = GenerationShape{2, 3, 7};
  const StepSchedule s = build_schedule(generating_model(), grid_for(Strategy::zero3, 2, 2, 0), policy);
  REQUIRE(verify_schedule(s).empty());
  CHECK(copied(s, kStore) == Names{"embed"});
  for (const std::vector<Play>& plays : {s.evaluation, s.generation}) {
    REQUIRE_FALSE(plays.empty());
    for (const Play& play : plays) {
      CHECK(copied(s, play.segment, kStore).empty());
      CHECK(copied(s, play.segment, kLoad).empty());
    }
  }
  const StepSchedule alone = build_schedule(frozen(generating_model()), grid_for(Strategy::zero3, 2, 2, 0), policy);
  CHECK_FALSE(copies_in_steps(alone));
}

TEST_CASE("a deep model's device keeps a few inputs of blocks instead of all, and its host the others") {
  RunShape shape;
  shape.architecture = preset("nano");
  shape.architecture.layers = 12;
  shape.architecture.vocab = 128;
  shape.micro_batch = 16, shape.sequence = 128;
  shape.world = shape.ranks_per_node = 8;  // the gradients of one rank would be more than the inputs
  shape.policy.recomputation = Recomputation::all_blocks();
  const PlannedRun without = plan_shape(shape);
  shape.policy.offload_activations = true;
  const PlannedRun with = plan_shape(shape);
  const std::int64_t each = with.schedule.model.residual_elements() * size_of(DType::fp32);
  const auto activations = [](const PlannedRun& run) {
    return run.plan.at(MemorySpace::device).own_peak[static_cast<std::size_t>(Category::activations)];
  };
  CHECK(activations(without) - activations(with) >= 9 * each);
  CHECK(without.plan.at(MemorySpace::device).total() - with.plan.at(MemorySpace::device).total() >= 8 * each);
  CHECK(with.plan.at(MemorySpace::host).total() == 11 * each);
  CHECK(limited_bytes(with.schedule, with.plan) == with.plan.at(MemorySpace::device).total());
}

TEST_CASE("a schedule with more inputs in flight than its limit says is rejected") {
  SchedulePolicy policy = policy_of(Recomputation::all_blocks());
  for (std::int64_t limit = 1; limit <= 3; ++limit) {
    policy.inputs_in_flight = limit;
    REQUIRE(verify_schedule(schedule_of(policy, 8)).empty());
    policy.inputs_in_flight = limit + 1;
    StepSchedule more = schedule_of(policy, 8);
    more.policy.inputs_in_flight = limit;
    CHECK(rejected(more, fmt::format("{} inputs of blocks may have to go out, the limit is {}", limit + 1, limit)));
    CHECK(rejected(more, fmt::format("{} inputs of blocks may have to be back, the limit is {}", limit + 1, limit)));
  }
}

TEST_CASE("an input that is another's, comes too early or is left behind is seen") {
  const StepSchedule right = schedule_of(policy_of(Recomputation::all_blocks()), 6);
  REQUIRE(verify_schedule(right).empty());
  const OperationId load = find(right, kLoad, "h.1.mlp"), other = find(right, kLoad, "h.2.mlp");

  StepSchedule swapped_inputs = right;  // a block's input from the host where another's was
  std::swap(swapped_inputs.operations[load].reads, swapped_inputs.operations[other].reads);
  CHECK(rejected(swapped_inputs, "into another part's, type or size"));

  StepSchedule early = right;  // as soon as it is stored
  early.operations[load].after.clear();
  CHECK(rejected(early, "too far ahead"));

  StepSchedule hurried = right;  // the head begins with an input on its way out
  const OperationId head = find(right, OperationKind::backward, "head");
  hurried.operations[head].after.clear();
  CHECK(rejected(hurried, "may still have to go out"));

  StepSchedule on_device = right;  // the copy does not leave the device
  const OperationId store = find(right, kStore, "h.1.mlp");
  const StorageId copy = right.value(right.operation(store).writes[0]).storage;
  on_device.storages[copy].space = MemorySpace::device;
  CHECK(rejected(on_device, "lies on the"));

  StepSchedule unread = right;  // backward reads what forward left on the device
  const ValueId back = right.operation(load).writes[0], made = right.operation(store).reads[0];
  for (Operation& op : unread.operations) std::ranges::replace(op.reads, back, made);
  CHECK(rejected(unread, "what it loads is not recomputed from"));
}

TEST_CASE("options that ask for inputs where none can go out are refused, and fit takes the option back") {
  Options options = parse_arguments({"--memory.checkpoint=selective", "--memory.checkpoint_blocks=3",
                                     "--memory.offload_activations=true", "--train.seq_len=32"});
  const Architecture nano = preset("nano");
  REQUIRE(nano.layers == 4);
  REQUIRE_THROWS_WITH(run_shape(options, {nano, 1, 1}),
                      Catch::Contains("offloads nothing when the recomputation is attention and mlp of "
                                      "blocks 3, because the input of the last of 4 blocks"));
  options.memory.recomputed_halves = "attention";  // wanted after the MLP's backward
  CHECK(run_shape(options, {nano, 1, 1}).policy.offload_activations);

  options.memory = MemoryOptions{};
  options.memory.checkpoint = ActivationCheckpointing::fit;
  options.memory.offload_activations = true;
  const auto decided = [&](std::int64_t device) { return with_fit_decided(options, {nano, 1, 1}, {device, 0}).memory; };
  CHECK_FALSE(decided(std::int64_t{1} << 40).offload_activations);  // everything fits
  CHECK(decided(1).offload_activations);                            // all blocks are recomputed
}
