#include <catch2/catch.hpp>

#include "examine_fit.hpp"
#include "tessera/fit/decide_fit.hpp"
#include "tessera/schedule/verify.hpp"

using namespace tessera;

namespace {

RunShape nano(std::int64_t micro_batch) {
  RunShape shape;
  shape.architecture = preset("nano");
  shape.architecture.layers = 6;
  shape.micro_batch = micro_batch;
  shape.sequence = 64;
  shape.world = shape.ranks_per_node = 2;
  return shape;
}

RunShape with(RunShape shape, const Recomputation& recomputation) {
  shape.policy.recomputation = recomputation;
  return shape;
}

std::int64_t limited_bytes_of(const RunShape& shape) {
  const PlannedRun planned = plan_shape(shape, {false, 0});
  return limited_bytes(planned.schedule, planned.plan);
}

std::int64_t flops_of(const RunShape& shape) { return recomputed_flops(plan_shape(shape, {false, 0}).schedule); }

/// The recomputed operations of a micro-step by part and kind, in order, with their outputs.
std::vector<std::string> recomputes(const StepSchedule& s) {
  std::vector<std::string> names;
  for (const OperationId id : s.segments[s.step[0].segment].operations()) {
    const Operation& op = s.operation(id);
    if (op.kind != OperationKind::recompute && op.kind != OperationKind::backward) continue;
    const bool writes_output =
        std::ranges::any_of(op.writes, [&](ValueId v) { return s.value(v).kind == ValueKind::activation; });
    const char* made = writes_output ? " with output" : "";
    if (op.kind == OperationKind::recompute) names.push_back(s.part(op.part).name + made);
    if (op.kind == OperationKind::backward && s.part(op.part).block >= 0) names.push_back("d " + s.part(op.part).name);
  }
  return names;
}

}  // namespace

TEST_CASE("What is dropped is made again just before its backward, an output only where it was dropped too") {
  RunShape shape = nano(2);
  shape.architecture.layers = 2;
  const auto names = [&](const Recomputation& one) { return recomputes(plan_shape(with(shape, one)).schedule); };
  using Names = std::vector<std::string>;
  CHECK(names({}) == Names{"d h.1.mlp", "d h.1.attn", "d h.0.mlp", "d h.0.attn"});
  CHECK(names({true, false, 1, 1, {}}) ==
        Names{"d h.1.mlp", "h.1.attn", "d h.1.attn", "d h.0.mlp", "h.0.attn", "d h.0.attn"});
  CHECK(names({false, true, 1, 2, {}}) == Names{"h.1.mlp", "d h.1.mlp", "d h.1.attn", "d h.0.mlp", "d h.0.attn"});
  CHECK(names({true, true, 1, 1, {0}}) ==
        Names{"d h.1.mlp", "d h.1.attn", "h.0.attn with output", "h.0.mlp", "d h.0.mlp", "d h.0.attn"});
}

TEST_CASE("Each half buys memory and pays FLOPs; both together most") {
  const RunShape shape = nano(8);
  const RunShape attention = with(shape, {true, false, 1, 1, {}}), mlp = with(shape, {false, true, 1, 1, {}});
  const RunShape both = with(shape, Recomputation::all_blocks());
  for (const RunShape& half : {attention, mlp}) {
    CHECK(limited_bytes_of(half) < limited_bytes_of(shape));
    CHECK(limited_bytes_of(both) < limited_bytes_of(half));
    CHECK(flops_of(half) > 0);
    CHECK(flops_of(half) < flops_of(both));
  }
  CHECK(flops_of(shape) == 0);
  // With both, attention's output projection is made again too.
  const std::int64_t width = shape.architecture.width, tokens = shape.micro_batch * shape.sequence;
  CHECK(flops_of(both) - flops_of(attention) - flops_of(mlp) == 6 * 2 * tokens * width * width);
}

TEST_CASE("fit takes the fewest FLOPs that fit") {
  const RunShape shape = nano(8);
  const std::int64_t most = limited_bytes_of(shape), least = limited_bytes_of(with(shape, Recomputation::all_blocks()));
  CHECK(fitting_recomputation(shape, {most, 0}) == Recomputation());
  CHECK(fitting_recomputation(shape, {least - 1, 0}).is_all());
  for (int step = 0; step < 8; ++step) {
    const std::int64_t allowed = least + (most - 1 - least) * step / 7;
    const Recomputation taken = fitting_recomputation(shape, {allowed, 0});
    INFO(allowed << " of " << most << ": " << describe(taken));
    REQUIRE(taken.is_any());
    REQUIRE(limited_bytes_of(with(shape, taken)) <= allowed);
    const PlannedRun planned = plan_shape(with(shape, taken));
    REQUIRE(verify_schedule(planned.schedule).empty());
    for (const auto [attention, mlp] : {std::array{false, true}, std::array{true, false}, std::array{true, true}}) {
      for (std::int64_t share = 1; share <= 6; ++share) {
        const RunShape other = with(shape, {attention, mlp, share, 6, {}});
        if (limited_bytes_of(other) <= allowed) REQUIRE(flops_of(other) >= flops_of(with(shape, taken)));
      }
    }
  }
}

TEST_CASE("fit is decided in the options, for a limit") {
  Options options = parse_arguments({"--model.preset=nano", "--train.micro_batch=8", "--memory.checkpoint=fit"});
  const Architecture architecture = preset("nano");
  const auto decided = [&](std::int64_t allowed) {
    return with_fit_decided(options, {architecture, 2, 2}, {allowed, 0}).memory;
  };
  CHECK(decided(std::int64_t{1} << 40) == MemoryOptions());
  CHECK(decided(1).checkpoint == ActivationCheckpointing::block);
  CHECK_THROWS_WITH(decided(0), Catch::Contains("plan.memory"));
  options.memory.checkpoint = ActivationCheckpointing::none;
  CHECK(decided(1) == options.memory);
}

TEST_CASE("what fits before anything is recomputed decides whether a GPU keeps what was activated") {
  Options options = parse_arguments({"--model.preset=nano", "--train.micro_batch=8", "--memory.checkpoint=fit"});
  options.run.device = DeviceKind::cuda;
  const Architecture architecture = preset("nano");
  const auto bytes_with = [&](Tristate keep) {
    Options with = options;
    with.memory.checkpoint = ActivationCheckpointing::none, with.memory.keep_activated = keep;
    const PlannedRun run = plan_shape(run_shape(with, {architecture, 2, 2}), {false, 0});
    return limited_bytes(run.schedule, run.plan);
  };
  const std::int64_t kept = bytes_with(Tristate::yes), again = bytes_with(Tristate::no);
  REQUIRE(again < kept);
  const auto decided = [&](std::int64_t allowed) {
    return with_fit_decided(options, {architecture, 2, 2}, {allowed, 0}).memory;
  };
  REQUIRE(is_decided_by_memory(options));
  CHECK(decided(kept).keep_activated == Tristate::yes);
  CHECK(decided(kept).checkpoint == ActivationCheckpointing::none);
  CHECK(decided(kept - 1).keep_activated == Tristate::no);
  CHECK(decided(again).checkpoint == ActivationCheckpointing::none);
  CHECK(decided(again - 1).checkpoint != ActivationCheckpointing::none);

  options.memory.checkpoint = ActivationCheckpointing::none;
  CHECK(is_decided_by_memory(options));
  CHECK(decided(kept - 1).keep_activated == Tristate::no);
  CHECK(decided(0).keep_activated == Tristate::automatic);  // without a limit
  options.run.deterministic = Tristate::yes;                // it changes bits, so memory may not decide
  CHECK_FALSE(is_decided_by_memory(options));
  CHECK(decided(kept - 1).keep_activated == Tristate::automatic);
  const FitAnswer answer = examine_fit(run_shape(options, {architecture, 2, 2}), kept - 1);
  REQUIRE_FALSE(answer.fits());
  CHECK(describe_fit(answer).find("memory.keep_activated=false") != std::string::npos);

  Architecture gated = architecture;
  gated.mlp = MlpKind::swiglu;
  options.run.deterministic = Tristate::no;
  CHECK(run_shape(options, {gated, 2, 2}).policy.keeps_activated);
  options.memory.checkpoint = ActivationCheckpointing::block;
  CHECK(run_shape(options, {architecture, 2, 2}).policy.keeps_activated);
  CHECK_FALSE(run_shape(options, {gated, 2, 2}).policy.keeps_activated);
  CHECK(with_fit_decided(options, {gated, 2, 2}, {kept, 0}).memory.keep_activated == Tristate::automatic);

  options.run.device = DeviceKind::cpu;
  CHECK_FALSE(keeps_activated(options));
  options.memory.keep_activated = Tristate::yes;
  CHECK(keeps_activated(options));
}

TEST_CASE("Fewer blocks fit where the inputs of all are more than the machine has") {
  RunShape shape = nano(8);
  shape.device = DeviceKind::cuda;
  shape.policy.offload_activations = true;
  const Recomputation half{true, true, 3, 6, {}};
  const auto bytes = [&](const Recomputation& one) {
    const PlannedRun run = plan_shape(with(shape, one), {false, 0});
    return std::pair(limited_bytes(run.schedule, run.plan), machine_bytes(run.schedule, run.plan));
  };
  const auto [device, machine] = bytes(half);
  REQUIRE(bytes(Recomputation::all_blocks()).second > machine);
  const auto [fitting_device, fitting_machine] = bytes(fitting_recomputation(shape, {device, machine}));
  CHECK(fitting_device <= device);
  CHECK(fitting_machine <= machine);
}

TEST_CASE("A rank that has all state keeps its 16-bit parameters, unless it is to drop them or they do not fit") {
  const auto kept = [](const std::vector<std::string>& words, std::int64_t allowed = 0) {
    const Options options = parse_arguments(words);
    const RunShape shape = run_shape(options, {preset("nano"), 1, 1});
    return with_copies_kept(shape, options, [&] { return FitLimits{allowed}; }).policy.keeps_copies;
  };
  const std::string bf16 = "--precision.compute=bf16";
  CHECK(kept({bf16}));
  CHECK_FALSE(kept({bf16}, 1000));
  CHECK_FALSE(kept({bf16, "--shard.reshard_after_forward=true"}));
  CHECK_FALSE(kept({bf16, "--shard.strategy=ddp"}));  // which keeps them without being told
  CHECK_FALSE(kept({}));
}

TEST_CASE("the longest samples fit, and longer ones do not, whatever else memory decides") {
  Architecture architecture = preset("nano");
  architecture.context = 1000;
  const auto bytes_at = [&](Options options, std::int64_t tokens, std::int64_t limit) {
    options.train.seq_len = tokens;
    const Options decided = with_fit_decided(options, {architecture, 2, 2}, {limit, 0});
    const PlannedRun run = plan_shape(run_shape(decided, {architecture, 2, 2}), {false, 0});
    return limited_bytes(run.schedule, run.plan);
  };
  std::int64_t before = 0, allowed = 0;  // what 128 tokens need where nothing is recomputed
  for (const char* checkpoint : {"none", "block", "fit"}) {
    Options options = parse_arguments({"--model.preset=nano", "--train.seq_len=fit", "--train.micro_batch=8",
                                       fmt::format("--memory.checkpoint={}", checkpoint)});
    options.run.device = DeviceKind::cuda;
    const auto longest = [&](std::int64_t limit) {
      return longest_sequence(options, {architecture, 2, 2}, {limit, 0});
    };
    CHECK(longest(std::int64_t{1} << 40) == architecture.context);
    CHECK(longest(1) == 64);
    CHECK_THROWS_WITH(longest(0), Catch::Contains("plan.memory"));
    if (allowed == 0) allowed = bytes_at(options, 128, 1);
    const std::int64_t tokens = longest(allowed);
    INFO(checkpoint << ": " << tokens << " tokens in " << allowed);
    CHECK((tokens % 64 == 0 && tokens < architecture.context));
    CHECK(bytes_at(options, tokens, allowed) <= allowed);
    CHECK(bytes_at(options, tokens + 64, allowed) > allowed);
    CHECK(tokens >= before);
    before = tokens;
  }
}

TEST_CASE("fit sends the inputs of recomputed blocks to the host where nothing else helps, unless that is given") {
  Options options = parse_arguments({"--model.preset=nano", "--train.micro_batch=8", "--memory.checkpoint=fit"});
  options.run.device = DeviceKind::cuda;
  options.run.deterministic = Tristate::yes;
  const Architecture architecture = preset("nano");
  const auto decided = [&](std::int64_t allowed) {
    return with_fit_decided(options, {architecture, 2, 2}, {allowed, 0}).memory;
  };
  const auto bytes_with = [&](bool offloads) {
    Options with = options;
    with.memory.checkpoint = ActivationCheckpointing::block, with.memory.offload_activations = offloads;
    const PlannedRun run = plan_shape(run_shape(with, {architecture, 2, 2}), {false, 0});
    return limited_bytes(run.schedule, run.plan);
  };
  const std::int64_t on_device = bytes_with(false), on_host = bytes_with(true);
  REQUIRE(on_host < on_device);
  CHECK_FALSE(decided(on_device).offload_activations);
  CHECK(decided(on_device - 1).offload_activations);
  CHECK(decided(on_host).offload_activations);
  CHECK_FALSE(decided(on_host - 1).offload_activations);
  options.given.insert("memory.offload_activations");
  CHECK_FALSE(decided(on_device - 1).offload_activations);
}
