// The table of `bench kernels` and its parts. No time is asserted.

#include <algorithm>
#include <catch2/catch.hpp>

#include "bench/bench_options.hpp"
#include "bench/kernel_rehearsal.hpp"
#include "bench/kernel_times.hpp"
#include "bench/tables.hpp"
#include "local_world/local_world.hpp"
#include "tessera/backend/thread_pool.hpp"
#include "tessera/resolve/architecture.hpp"
#include "tessera/schedule/planned_run.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

StepSchedule schedule_of(const Options& options, std::int64_t world) {
  const Architecture architecture = resolve_architecture(options.model);
  const ModelParts model = declare_parts(architecture, options.train.micro_batch, architecture.context,
                                         options.precision.compute, options.precision.reduce);
  return build_schedule(model, grid_for(options.shard.strategy, world, world, 0), policy_from(options));
}

std::int64_t count_of(const StepSchedule& schedule, const KernelWork& work, PartKind kind, OperationKind direction) {
  std::int64_t sum = 0;
  for (const PartWork& one : work.parts) {
    if (schedule.part(one.part).kind == kind && one.kind == direction) sum += one.count;
  }
  return sum;
}

/// Returns the elements that a step updates, or whose squares it sums, on one rank.
std::int64_t elements_of(const KernelWork& work, FlatKind kind) {
  std::int64_t sum = 0;
  for (const FlatWork& one : work.flat) {
    if (one.kind == kind) sum += one.count * one.elements;
  }
  return sum;
}

/// FLOPs of a step by the model's own declaration.
double declared_flops(const StepSchedule& schedule) {
  double flops = 0;
  for (const Play& play : schedule.step) {
    const Segment& segment = schedule.segments[play.segment];
    for (const OperationId id : segment.operations()) {
      const Operation& op = schedule.operation(id);
      if (!op.part) continue;
      const Part& part = schedule.part(op.part);
      if (op.kind == OperationKind::forward) flops += static_cast<double>(part.forward.flops);
      if (op.kind == OperationKind::backward) flops += static_cast<double>(part.backward.flops);
    }
  }
  return flops;
}

}  // namespace

TEST_CASE("work of a step is counted from its schedule") {
  Options options = small_run();
  options.shard.strategy = GENERATE(Strategy::ddp, Strategy::zero1, Strategy::zero2, Strategy::zero3);
  const std::int64_t world = GENERATE(1, 2);
  const StepSchedule schedule = schedule_of(options, world);
  const KernelWork work = kernel_work(schedule);
  CHECK(count_of(schedule, work, PartKind::embedding, OperationKind::forward) == 2);  // accumulation
  CHECK(count_of(schedule, work, PartKind::attention, OperationKind::forward) == 6);  // of three layers
  CHECK(count_of(schedule, work, PartKind::mlp, OperationKind::backward) == 6);
  CHECK(count_of(schedule, work, PartKind::head, OperationKind::backward) == 2);
  CHECK(count_of(schedule, work, PartKind::attention, OperationKind::recompute) == 0);
  const std::int64_t held = options.shard.strategy == Strategy::ddp ? 1 : world;
  CHECK(elements_of(work, FlatKind::update) == schedule.layout.padded_elements() / held);
  CHECK(elements_of(work, FlatKind::square_sum) >= schedule.layout.padded_elements() / world);
  for (const PartWork& one : work.parts) CHECK(schedule.part(one.part).block <= 0);
}

TEST_CASE("Muon's work is counted: matrices and all else apart, and the matrices of the first owner") {
  Options options = small_run();
  options.optim.name = OptimizerName::muon;
  options.shard.strategy = GENERATE(Strategy::ddp, Strategy::zero3);
  const std::int64_t world = GENERATE(1, 2);
  const StepSchedule schedule = schedule_of(options, world);
  const KernelWork work = kernel_work(schedule);
  const std::int64_t held = options.shard.strategy == Strategy::ddp ? 1 : world;
  const std::int64_t matrices = elements_of(work, FlatKind::update_matrices);
  CHECK(matrices > 0);
  CHECK(elements_of(work, FlatKind::direction) == matrices);
  CHECK(matrices + elements_of(work, FlatKind::update) == schedule.layout.padded_elements() / held);
  std::int64_t owned = 0;
  for (const UnitOwners& unit : schedule.owners) {
    for (const OwnedTensor& one : unit.tensors)
      owned += one.owner == 0 ? schedule.model.tensors[one.tensor].elements : 0;
  }
  CHECK(elements_of(work, FlatKind::orthogonalize) == owned);
}

TEST_CASE("updates write 16-bit copies, which are counted with their bytes instead of casts") {
  Options options = small_run();
  options.precision.compute = options.precision.reduce = DType::bf16;
  options.shard.strategy = GENERATE(Strategy::ddp, Strategy::zero1);
  const std::int64_t world = GENERATE(1, 2);
  const KernelWork work = kernel_work(schedule_of(options, world));
  CHECK(elements_of(work, FlatKind::update) > 0);
  for (const FlatWork& one : work.flat) {
    INFO(static_cast<int>(one.kind) << " " << name_of(one.from) << " to " << name_of(one.to) << " " << one.elements);
    if (one.kind == FlatKind::update) CHECK(one.to == DType::bf16);
    if (one.kind == FlatKind::cast) CHECK_FALSE((one.from == DType::fp32 && one.to == DType::bf16));
  }
  float state[3] = {}, gradient = 0;
  float* const states[] = {&state[1], &state[2]};
  UpdateArguments a;
  a.elements = 1, a.master = state, a.states = states, a.gradient = &gradient, a.gradient_dtype = DType::bf16;
  CHECK(cost_of(a).bytes == 26);
  a.copy = &state[1], a.copy_dtype = DType::bf16;
  CHECK(cost_of(a).bytes == 28);
}

TEST_CASE("recomputed blocks are counted") {
  Options options = small_run();
  options.memory.checkpoint = ActivationCheckpointing::block;
  const StepSchedule schedule = schedule_of(options, 1);
  const KernelWork work = kernel_work(schedule);
  CHECK(count_of(schedule, work, PartKind::attention, OperationKind::recompute) == 6);
  CHECK(count_of(schedule, work, PartKind::mlp, OperationKind::recompute) == 6);
}

TEST_CASE("timed kernels report every call, weighed by its count") {
  ThreadPool pool(1);
  const auto kernels = make_cpu_kernels(pool);
  const auto device = make_cpu_device();
  const auto stream = device->make_caller_stream("bench");
  StreamClock clock(*device, *stream);
  KernelTimes times;
  const auto timed = make_timed_kernels(*kernels, times, clock);
  const std::vector<float> source{1, 2, 3, 4};
  std::vector<float> copy(4);
  for (int repetition = 0; repetition < 3; ++repetition) {
    times.set_count(5);
    timed->cast(*stream, source.data(), DType::fp32, copy.data(), DType::fp32, 4);
    times.set_count(2);
    timed->cast(*stream, source.data(), DType::fp32, copy.data(), DType::fp32, 3);
    timed->fill_zero(*stream, copy.data(), 4);
    times.finish_repetition({1.0 + repetition, 10, 100});
  }
  CHECK(copy == std::vector<float>{0, 2, 3, 4});
  const auto rows = times.rows();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].calls == 7);
  CHECK(rows[0].cost.bytes == 5 * 32 + 2 * 24);
  CHECK(rows[0].seconds == 5 * 2 + 2 * 10);  // of the middle repetition
  CHECK(rows[1].calls == 2);
  CHECK(rows[1].cost.bytes == 8);
  CHECK(rows[1].seconds == 2 * 100);
  CHECK(clock.take().size() == 9);
}

TEST_CASE("a rehearsal is a training step's arithmetic") {
  Options options = small_run();
  options.precision.compute = GENERATE(DType::fp32, DType::bf16);
  options.memory.checkpoint = GENERATE(ActivationCheckpointing::none, ActivationCheckpointing::block);
  options.model.dropout = GENERATE(0.0, 0.1);
  const StepSchedule schedule = schedule_of(options, 1);
  const KernelWork work = kernel_work(schedule);
  KernelTimes times;
  run_ranks(1, 1, [&](RankContext& context) {
    BenchDevice device(context, options, {});
    KernelRehearsal rehearsal(schedule, work, options, device);
    StreamClock clock(device.device(), device.stream());
    const auto timed = make_timed_kernels(device.kernels(), times, clock);
    for (const PartWork& one : work.parts) times.set_count(one.count), rehearsal.play(*timed, one);
    for (const FlatWork& one : work.flat) times.set_count(one.count), rehearsal.play(*timed, one);
    times.finish_repetition(clock.take());
    // Initial weights know nothing, so the loss is that of a guess.
    CHECK(rehearsal.loss() == Approx(std::log(97.0)).epsilon(0.02));
  });
  double flops = 0;
  for (const KernelRow& row : times.rows()) flops += row.cost.flops;
  const double declared = declared_flops(schedule);
  if (options.memory.checkpoint == ActivationCheckpointing::none) {
    CHECK(flops == Approx(declared).epsilon(1e-12));
  } else {
    CHECK(flops > declared);
  }
}

TEST_CASE("the table of bench kernels") {
  const int ranks = GENERATE(1, 2);
  Options options = small_run();
  options.data.document_mask = GENERATE(false, true);  // of the run; texts are drawn here
  std::string table;
  run_ranks(ranks, ranks, [&](RankContext& context) {
    MachineShape machine;
    machine.machine_ranks = ranks;
    const std::string text = kernel_table(context, options, machine).text;
    if (context.rank() == 0) table = text;
  });
  CAPTURE(table);
  CHECK(lines_of(table, "linear forward").size() == 4);
  CHECK(lines_of(table, "linear backward").size() == 6);  // two of four in halves: input, weight
  for (const char* kernel : {"attention forward", "attention backward", "norm forward", "norm backward",
                             "embedding forward", "embedding backward", "head, all", "gelu", "adamw", "square sum"}) {
    CAPTURE(kernel);
    CHECK(lines_of(table, kernel).size() == 1);
  }
  CHECK(lines_of(table, "all kernels").size() == 1);
  CHECK(lines_of(table, "matmuls").size() == 1);
  CHECK(table.find("nan") == std::string::npos);
  CHECK(table.find("inf") == std::string::npos);
  CHECK(table.find('?') == std::string::npos);
}

TEST_CASE("a Llama's kernels are measured") {
  Options options = small_run();
  options.model = ModelOptions{};
  options.model.family = "llama";
  options.model.layers = 2, options.model.heads = 4, options.model.kv_heads = 2, options.model.width = 32;
  options.model.ffn_width = 48, options.model.vocab = 256, options.model.context = 64;
  std::string table;
  run_ranks(1, 1, [&](RankContext& context) { table = kernel_table(context, options, {}).text; });
  CAPTURE(table);
  for (const char* kernel : {"rotary backward", "swiglu backward", "all kernels", "matmuls"}) {
    CAPTURE(kernel);
    CHECK(lines_of(table, kernel).size() == 1);
  }
  CHECK(lines_of(table, "swiglu").size() == 2);
  CHECK(lines_of(table, "gelu").empty());
  CHECK(table.find("nan") == std::string::npos);
}
