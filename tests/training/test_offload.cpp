// Runs whose state rests on the host: checkpoints to and from runs without, queues that fail, memory that is used.
#include <catch2/catch.hpp>
#include <chrono>

#include "checkpoint_case.hpp"
#include "filled_memory.hpp"
#include "plan_run.hpp"
#include "sanitized.hpp"
#include "tessera/base/math.hpp"
#include "tessera/schedule/formula.hpp"
#include "tessera/schedule/verify.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

Options offloading(Options options, Offload offload, double fraction = 1) {
  options.shard.offload = offload;
  options.shard.offload_fraction.value = fraction;
  return options;
}

/// Blocks whose inputs wait on the host.
Options taking_inputs_out(Options options, const char* halves = "attention,mlp") {
  options.memory.checkpoint = ActivationCheckpointing::selective;
  options.memory.recomputed_halves = halves;
  options.memory.offload_activations = true;
  return options;
}

Architecture five_blocks() {
  Architecture a = small_gpt2();
  a.layers = 5;
  return a;
}

void require_rest(const Outcome& whole, const Outcome& rest) {
  REQUIRE(rest.first_step == 4);
  REQUIRE(rest.losses.size() == 3);
  for (const auto& [step, loss] : rest.losses) REQUIRE(loss == whole.losses.at(step));
  require_same_state(whole, rest);
}

}  // namespace

TEST_CASE("state that was on the host goes on on the device, and the reverse, to the bit") {
  Options options = base_options();
  options.train.steps = 6;
  const Shape shapes[] = {{Strategy::zero3, 2, 2, 0, Wrap::block, 4},
                          {Strategy::zero2, 1, 1, 0, Wrap::size, 4},
                          {Strategy::hsdp, 4, 2, 2, Wrap::block, 4}};
  const std::pair<Offload, Offload> modes[] = {{Offload::none, Offload::optimizer},
                                               {Offload::optimizer, Offload::params},
                                               {Offload::params, Offload::none},
                                               {Offload::optimizer, Offload::optimizer}};
  for (const DType compute : {DType::fp32, DType::bf16}) {
    options.precision.compute = compute;
    for (const Shape& shape : shapes) {
      const RunPlace reference;
      const Outcome whole = run(options, shape, reference.path(), 6, 3);
      for (const auto& [before, after] : modes) {
        for (const bool async : {false, true}) {
          if (kSanitized && async != (compute == DType::bf16)) continue;
          options.checkpoint.async = async;
          options.run.queues = async ? QueueMode::chaos : QueueMode::parallel;
          INFO(shape.text() << " " << name_of(compute) << " " << name_of(before) << " to " << name_of(after)
                            << " async " << async);
          const RunPlace place;
          require_same_state(whole, run(offloading(options, before, 0.7), shape, place.path(), 6, 3));
          require_rest(whole, run(resumed(offloading(options, after)), shape, place.path(), 6, 0));
        }
      }
    }
  }
}

TEST_CASE("strategies that keep full parameters offload their optimizer, and save what they would have") {
  Options options = base_options();
  options.train.steps = 6;
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero1, Strategy::hsdp_zero1}) {
    const Shape shape{strategy, 4, 4, strategy == Strategy::hsdp_zero1 ? 2 : 0, Wrap::block, 4};
    INFO(shape.text());
    const RunPlace place, other;
    const Outcome whole = run(options, shape, place.path(), 6, 3);
    Options async = offloading(options, Offload::optimizer);
    async.checkpoint.async = true;
    require_same_state(whole, run(async, shape, other.path(), 6, 3));
    require_rest(whole, run(resumed(options), shape, other.path(), 6, 0));
  }
}

TEST_CASE("a host's queue that fails ends every rank with its message, whoever waits for whom") {
  for (const QueueMode mode : {QueueMode::serial, QueueMode::parallel, QueueMode::chaos}) {
    Options options = offloading(base_options(), Offload::optimizer);
    options.run.queues = mode;
    RunShape shape = run_shape(options, {small_gpt2(), 2, 2});
    shape.policy.offload_bucket = 256;
    PlannedRun planned = plan_shape(shape);
    require_verified(planned.schedule, planned.plan);
    // The second unit's gradient is of a type that has no kernel, when the next step finds it.
    std::vector<ValueId> gradients;
    for (const OperationId id : planned.schedule.segments[planned.schedule.step.front().segment].operations()) {
      const Operation& op = planned.schedule.operation(id);
      if (op.kind == OperationKind::update) gradients.push_back(op.reads[0]);
    }
    REQUIRE(gradients.size() > 10);
    const auto second = std::ranges::find_if(gradients, [&](ValueId v) { return v != gradients[0]; });
    planned.schedule.values[*second].placement.dtype = DType::int32;
    std::atomic<int> failed = 0;
    with_sessions(options, planned, [&](RankContext&, TrainingSession& session) {
      session.train_step();
      try {
        session.train_step();
      } catch (const InternalError& error) {
        if (std::string(error.what()).find("have no kernels") != std::string::npos) ++failed;
      } catch (const PeerError&) {
        ++failed;
      }
    });
    INFO(name_of(mode));
    REQUIRE(failed == 2);
  }
}

TEST_CASE("the host's regions are as large as planned, and a step uses all of the buffers") {
  Options options = offloading(base_options(), Offload::optimizer);
  options.precision.compute = DType::bf16;
  RunShape shape = run_shape(options, {small_gpt2(), 2, 2});
  shape.policy.offload_bucket = 1024;
  const PlannedRun planned = plan_shape(shape);
  with_sessions(options, planned, [&](RankContext&, TrainingSession& session) {
    const auto region = [&](RegionKind kind) { return session.resources().memory->region(kind, MemorySpace::host); };
    for (const RegionKind kind : {RegionKind::at_rest, RegionKind::private_})
      REQUIRE(std::ssize(region(kind)) >= planned.plan.region(MemorySpace::host, kind).bytes);
    REQUIRE(planned.plan.region(MemorySpace::host, RegionKind::at_rest).bytes ==
            offload_account(planned.schedule).on_host);
    const auto buffers =
        region(RegionKind::private_)
            .first(static_cast<std::size_t>(planned.plan.region(MemorySpace::host, RegionKind::private_).bytes));
    fill(buffers);
    for (int step = 0; step < 2; ++step) session.train_step();
    CHECK(unwritten(buffers) == 0);
  });
}

TEST_CASE("a step leaves its updates to the next one, and state is not read before") {
  const Options options = offloading(base_options(), Offload::optimizer);
  const PlannedRun planned = plan_run(options, small_gpt2(), 1, 1);
  with_sessions(options, planned, [&](RankContext&, TrainingSession& session) {
    const float* const weight = state_slice(planned.schedule, session.resources(), UnitId(0)).master();
    const float before = *weight;
    session.train_step();
    CHECK(*weight == before);
    CHECK_THROWS_AS(state_slice(planned.schedule, session.resources(), UnitId(0)), InternalError);
    session.evaluate(1);
    const float first = *weight;
    CHECK(first != before);
    CHECK(*state_slice(planned.schedule, session.resources(), UnitId(0)).master() == first);
    session.train_step();
    CHECK(*weight == first);
    session.train_step();
    const float second = *weight;
    CHECK(second != first);
    for (int i = 0; i < 2; ++i) session.player().finish_step();
    CHECK(*weight != second);
  });
}

TEST_CASE("steps that are skipped leave nothing to be applied, wherever the state is") {
  Options options = base_options();
  options.precision.compute = options.precision.reduce = DType::fp16;
  options.optim.warmup_steps = 0;
  options.train.steps = 14;
  const TensorSource weights = with_last_gain(small_gpt2(), 1e2f);
  const RunOutcome plain = train_locally(options, small_gpt2(), 1, 1, {}, weights);
  REQUIRE(plain.skipped > 0);
  REQUIRE(plain.skipped < options.train.steps);
  for (const std::int64_t every : {0, 1}) {  // with evaluations in between, too
    options.train.eval_every = every;
    for (const double fraction : {1.0, 0.4}) {
      const RunOutcome other =
          train_locally(offloading(options, Offload::optimizer, fraction), small_gpt2(), 1, 1, {}, weights, 256);
      CHECK(other.losses == plain.losses);
      CHECK(other.weights == plain.weights);
      CHECK(other.skipped == plain.skipped);
    }
  }
}

TEST_CASE("emulated copies take their time, and leave no trace") {
  Options options = offloading(base_options(), Offload::optimizer);
  options.train.steps = 2;
  options.run.queues = QueueMode::parallel;
  const RunOutcome plain = train_locally(options, small_gpt2(), 1, 1, {}, {}, 1024);
  options.memory.emulate_copies = {.latency = 0.004, .bandwidth = 1e8};
  RunShape shape = run_shape(options, {small_gpt2(), 1, 1});
  shape.policy.offload_bucket = 1024;
  const PlannedRun planned = plan_shape(shape);
  double down = 0;
  for (const Play& play : planned.schedule.step) {
    for (const OperationId id : planned.schedule.segments[play.segment].operations()) {
      const Operation& op = planned.schedule.operation(id);
      const auto bytes = static_cast<double>(copied_bytes(planned.schedule, op));
      if (op.kind == OperationKind::store && bytes > 0) down += 0.004 + bytes / 1e8;
    }
  }
  REQUIRE(down > 0.015);
  const auto start = std::chrono::steady_clock::now();
  const RunOutcome slow = train_locally(options, small_gpt2(), 1, 1, {}, {}, 1024);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  CHECK(took.count() > 2 * down);
  CHECK(slow.losses == plain.losses);
  CHECK(slow.weights == plain.weights);
}

TEST_CASE("inputs of blocks that wait on the host leave no trace, whoever else is offloaded") {
  Options options = base_options();
  options.train.steps = 3;
  options.train.micro_batch = 1;  // 16-bit inputs of 189 elements: no whole number of words
  for (const DType compute : {DType::fp32, DType::bf16}) {
    options.precision.compute = compute;
    options.train.accumulation = 4;
    const RunOutcome plain = train_locally(options, five_blocks(), 1, 1);
    for (const Offload offload : {Offload::none, Offload::params}) {
      for (const char* halves : {"attention,mlp", "attention", "mlp"}) {
        Options out = offloading(taking_inputs_out(options, halves), offload);
        out.train.accumulation = 2;
        MachineShape machine;
        machine.poison = true;
        for (const QueueMode mode : {QueueMode::serial, QueueMode::parallel, QueueMode::chaos}) {
          if (kSanitized && mode != QueueMode::chaos) continue;
          out.run.queues = mode;
          INFO(name_of(compute) << " " << name_of(offload) << " " << halves << " " << name_of(mode));
          const RunOutcome other = train_locally(out, five_blocks(), 2, 2, machine, {}, 512);
          CHECK(other.losses == plain.losses);
          CHECK(other.weights == plain.weights);
          CHECK(other.evaluations == plain.evaluations);
        }
      }
    }
  }
}

TEST_CASE("inputs of blocks take the host's memory that is planned, to the byte") {
  const Options options = taking_inputs_out(base_options());
  const PlannedRun planned = plan_shape(run_shape(options, {five_blocks(), 1, 1}));
  require_verified(planned.schedule, planned.plan);
  const std::int64_t each = planned.schedule.model.residual_elements() * size_of(DType::fp32);
  const std::int64_t aligned = round_up(each, kStorageAlignment);
  REQUIRE(planned.plan.at(MemorySpace::host).total() == 4 * aligned);
  with_sessions(options, planned, [&](RankContext&, TrainingSession& session) {
    const auto buffers = session.resources().memory->region(RegionKind::private_, MemorySpace::host);
    REQUIRE(std::ssize(buffers) >= 4 * aligned);
    fill(buffers);
    session.train_step();
    CHECK(unwritten(buffers.first(static_cast<std::size_t>(4 * aligned))) == 0);
  });
}

TEST_CASE("emulated copies slow those of inputs too") {
  Options options = taking_inputs_out(base_options());
  options.train.steps = 2;
  options.run.queues = QueueMode::parallel;
  const RunOutcome plain = train_locally(options, five_blocks(), 1, 1);
  options.memory.emulate_copies = {.latency = 0.06, .bandwidth = 0};
  const auto start = std::chrono::steady_clock::now();
  const RunOutcome slow = train_locally(options, five_blocks(), 1, 1);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  CHECK(took.count() > 2 * 8 * 0.06);  // four out before the head, four back after it
  CHECK(slow.losses == plain.losses);
  CHECK(slow.weights == plain.weights);
}
