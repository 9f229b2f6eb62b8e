// The table of `bench kernels` and its parts. No time is asserted.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "bench/bench_options.hpp"
#include "bench/kernel_player.hpp"
#include "bench/tables.hpp"
#include "local_world/local_world.hpp"
#include "tessera/backend/thread_pool.hpp"
#include "tessera/grid/strategy.hpp"
#include "tessera/resolve/architecture.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

StepSchedule schedule_of(const Options& options, std::int64_t world) {
  return plan_shape(run_shape(options, {resolve_architecture(options.model), world, world}), {false, 0}).schedule;
}

/// The operations of a step on one block, counted.
struct Counted {
  Counted(const Options& options, std::int64_t world)
      : schedule(with_one_block(schedule_of(options, world)).schedule),
        operations(counted_operations(schedule, schedule.step)) {}

  std::int64_t count(OperationKind kind, PartKind part) const {
    std::int64_t sum = 0;
    for (const CountedOperation& one : operations) {
      const Operation& op = schedule.operation(one.operation);
      if (op.kind == kind && schedule.part(op.part).kind == part) sum += one.count;
    }
    return sum;
  }

  StepSchedule schedule;
  std::vector<CountedOperation> operations;
};

/// Returns calls, bytes and FLOPs of a step by the name of the kernel, on rank 0.
std::map<std::string, KernelRow> rows_of(const Options& options, int ranks) {
  std::map<std::string, KernelRow> rows;
  run_ranks(ranks, ranks, [&](RankContext& context) {
    KernelPlayer player(context, options, {}, schedule_of(options, ranks));
    player.play();
    player.times().finish_repetition(player.clock().take());
    context.control().barrier();
    if (context.rank() != 0) return;
    for (const KernelRow& row : player.times().rows()) {
      KernelRow& sum = rows[row.name];
      sum.calls += row.calls, sum.cost.bytes += row.cost.bytes, sum.cost.flops += row.cost.flops;
    }
  });
  return rows;
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

TEST_CASE("one of the operations that do the same work stands for all of them") {
  Options options = small_run();
  options.shard.strategy = GENERATE(Strategy::ddp, Strategy::zero1, Strategy::zero2, Strategy::zero3);
  options.memory.checkpoint = GENERATE(ActivationCheckpointing::none, ActivationCheckpointing::block);
  const std::int64_t world = GENERATE(1, 2);
  const Counted step(options, world);
  CHECK(step.count(OperationKind::forward, PartKind::embedding) == 2);  // accumulation
  CHECK(step.count(OperationKind::forward, PartKind::attention) == 6);  // of three layers
  CHECK(step.count(OperationKind::backward, PartKind::mlp) == 6);
  CHECK(step.count(OperationKind::backward, PartKind::head) == 2);
  const bool recomputes = options.memory.checkpoint == ActivationCheckpointing::block;
  CHECK(step.count(OperationKind::recompute, PartKind::attention) == (recomputes ? 6 : 0));
  options.model.layers = 30;
  CHECK(Counted(options, world).operations.size() == step.operations.size());
}

TEST_CASE("blocks share memory, but the storages of one operation do not") {
  Options options = small_run();
  options.shard.strategy = GENERATE(Strategy::ddp, Strategy::zero2, Strategy::zero3, Strategy::hsdp);
  if (options.shard.strategy == Strategy::hsdp) options.shard.group_size = 2;
  options.train.accumulation = GENERATE(1, 2, 7);
  options.optim.name = GENERATE(OptimizerName::adamw, OptimizerName::muon);
  options.shard.wrap = GENERATE(Wrap::block, Wrap::size);
  options.shard.min_params = 5000;
  const StepSchedule whole = schedule_of(options, 4);
  const auto [schedule, plan] = with_one_block(whole);
  const auto storages_of = [](const StepSchedule& of, OperationId id) {
    std::set<StorageId> storages;
    for (const ValueId value : touched_values(of.operation(id))) storages.insert(of.value(value).storage);
    return storages;
  };
  for (const OperationId id : whole.operations.ids())
    REQUIRE(storages_of(schedule, id).size() == storages_of(whole, id).size());
  if (options.shard.wrap == Wrap::size || options.optim.name == OptimizerName::muon) return;  // blocks may differ
  options.model.layers = 30;
  CHECK(with_one_block(schedule_of(options, 4)).plan.total() == plan.total());
}

TEST_CASE("Muon updates matrices and all else apart, and orthogonalizes the matrices that the rank owns") {
  Options options = small_run();
  options.optim.name = OptimizerName::muon;
  options.shard.strategy = GENERATE(Strategy::ddp, Strategy::zero3);
  const int world = GENERATE(1, 2);
  const StepSchedule schedule = schedule_of(options, world);
  auto rows = rows_of(options, world);
  const std::int64_t held = options.shard.strategy == Strategy::ddp ? 1 : world;
  std::int64_t matrices = 0, owned = 0;
  for (const Unit& unit : schedule.layout.units) matrices += std::min(unit.matrices_end, unit.share(held));
  for (const UnitOwners& unit : schedule.owners) {
    for (const OwnedTensor& one : unit.tensors) {
      const ParameterTensor& tensor = schedule.model.tensors[one.tensor];
      if (one.owner == 0) owned += std::ssize(matrices_of(tensor, schedule.model.architecture));
    }
  }
  const std::int64_t all = schedule.layout.padded_elements() / held;
  CHECK(rows["muon"].cost.bytes > 0);
  CHECK(rows["muon direction"].cost.bytes == 12.0 * static_cast<double>(matrices));
  CHECK(rows["adamw"].cost.bytes == 28.0 * static_cast<double>(all - matrices));
  CHECK(std::llround(rows["orthogonalize"].calls) == owned);
}

TEST_CASE("updates write 16-bit copies, which are counted with their bytes instead of casts") {
  Options options = small_run();
  options.precision.compute = options.precision.reduce = DType::bf16;
  options.shard.strategy = GENERATE(Strategy::ddp, Strategy::zero1);
  const int world = GENERATE(1, 2);
  auto rows = rows_of(options, world);
  const Counted step(options, world);
  double bytes = 0;
  for (const CountedOperation& one : step.operations) {
    const Operation& op = step.schedule.operation(one.operation);
    if (op.kind != OperationKind::update) continue;
    REQUIRE(op.writes.size() == 1);
    const std::int64_t elements = step.schedule.state[op.unit].elements;
    const DType gradient = step.schedule.value(step.schedule.state[op.unit].gradient).dtype();
    bytes += static_cast<double>(one.count * elements * (24 + size_of(gradient) + size_of(DType::bf16)));
  }
  CHECK(rows["adamw"].cost.bytes == bytes);
}

TEST_CASE("timed kernels report every call, weighed by its count") {
  ThreadPool pool(1);
  const auto kernels = make_cpu_kernels(pool);
  const auto device = make_cpu_device();
  const auto stream = device->make_caller_stream("bench");
  StreamClock clock(*device, *stream);
  KernelTimes times;
  const std::vector<float> source{1, 2, 3, 4};
  std::vector<float> copy(4);
  for (int repetition = 0; repetition < 3; ++repetition) {
    times.set_count(5);
    times.run(clock, *kernels, *stream, Cast{{source.data(), DType::fp32}, {copy.data(), DType::fp32}, 4});
    times.set_count(2);
    times.run(clock, *kernels, *stream, Cast{{source.data(), DType::fp32}, {copy.data(), DType::fp32}, 3});
    times.run(clock, *kernels, *stream,
              Add{{source.data(), DType::fp32}, {source.data(), DType::fp32}, {copy.data(), DType::fp32}, 1});
    times.run(clock, *kernels, *stream, FillZero{copy.data() + 1, 4});  // padding
    times.finish_repetition({1.0 + repetition, 10, 100});
  }
  CHECK(copy == std::vector<float>{2, 0, 3, 4});
  const auto rows = times.rows();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].calls == 7);
  CHECK(rows[0].cost.bytes == 5 * 32 + 2 * 24);
  CHECK(rows[0].seconds == 5 * 2 + 2 * 10);  // of the middle repetition
  CHECK(rows[1].calls == 2);
  CHECK(rows[1].cost.bytes == 2 * 12);
  CHECK(rows[1].seconds == 2 * 100);
  CHECK(clock.take().size() == 9);
}

TEST_CASE("what is timed is a training step's arithmetic, on numbers like its own") {
  Options options = small_run();
  options.precision.compute = GENERATE(DType::fp32, DType::bf16);
  options.memory.checkpoint = GENERATE(ActivationCheckpointing::none, ActivationCheckpointing::block);
  options.model.dropout = GENERATE(0.0, 0.1);
  const int world = GENERATE(1, 2);
  const StepSchedule schedule = schedule_of(options, world);
  double flops = 0;
  run_ranks(world, world, [&](RankContext& context) {
    KernelPlayer player(context, options, {}, schedule);
    for (int repetition = 0; repetition < 5; ++repetition) {
      player.play();
      player.times().finish_repetition(player.clock().take());
    }
    const auto& scalars =
        *reinterpret_cast<const StepScalars*>(player.resources().address(schedule.reserved(Reserved::scalars)));
    // Initial weights know nothing, and no update changes them: the loss is that of a guess.
    CHECK(scalars.micro_loss / static_cast<double>(schedule.model.tokens()) == Approx(std::log(97.0)).epsilon(0.02));
    CHECK(scalars.skip == 0);
    CHECK(scalars.outcome.finite == 1);
    CHECK(scalars.outcome.grad_norm > 0);
    context.control().barrier();
    if (context.rank() != 0) return;
    for (const KernelRow& row : player.times().rows()) flops += row.cost.flops;
  });
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
  options.data.document_mask = GENERATE(Tristate::no, Tristate::yes);  // of the run; texts are drawn here
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

TEST_CASE("bench kernels shows linears in fp8 and their conversions beside the same linears without") {
  Options options = small_run();
  options.precision.compute = DType::bf16;
  options.precision.linear = LinearPrecision::fp8, options.precision.fp8_smallest = 0;
  const auto table_of = [&] {
    BenchResult result;
    run_ranks(1, 1, [&](RankContext& context) { result = kernel_table(context, options, {}); });
    return result;
  };
  const auto [table, tables, gpu, kernels, algorithms] = table_of();
  CAPTURE(table);
  REQUIRE(tables.size() == 3);
  CHECK(tables[2].name == "linears_without_fp8");
  CHECK(lines_of(table, "to fp8").size() >= 3);
  CHECK(lines_of(table, "linear forward").size() == 2 * 4);
  CHECK(lines_of(table, "linear backward").size() == 2 * 6);
  const auto linears = lines_of(table, "linears ");
  REQUIRE(linears.size() == 2);  // a sum, and the comparison
  CHECK(linears[1].find("; in bf16 linears ") != std::string::npos);
  CHECK(table.find("nan") == std::string::npos);
  options.precision.linear = LinearPrecision::compute;
  CHECK(lines_of(table_of().text, "linears ").size() == 1);
  CHECK(table_of().tables.size() == 2);
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
