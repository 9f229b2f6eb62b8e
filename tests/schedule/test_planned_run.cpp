// From options to a planned run. Memory other than values lies in its plan too: workspaces, receive buffers.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "all_policies.hpp"
#include "mutants.hpp"
#include "tessera/comm/scratch.hpp"
#include "tessera/config/options.hpp"
#include "tessera/kernels/host_exchange.hpp"
#include "tessera/kernels/needs.hpp"
#include "tessera/schedule/planned_run.hpp"
#include "tessera/schedule/print.hpp"
#include "tessera/schedule/verify.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

RunShape shape_on(DeviceKind device, Transfer transfer, std::int64_t ranks_per_node = 8) {
  RunShape shape;
  shape.architecture = preset("gpt2-124m");
  shape.micro_batch = 2;
  shape.sequence = 256;
  shape.world = 8;
  shape.ranks_per_node = ranks_per_node;
  shape.device = device;
  shape.policy.transfer = transfer;
  shape.policy.limit_all_gathers = 3;
  return shape;
}

/// Bytes of an operation's scratch.
std::int64_t scratch_bytes(const StepSchedule& schedule, const Operation& op) {
  const ValueId v = scratch_of(schedule, op);
  return v ? schedule.storage_of(v).bytes : 0;
}

bool require_no_problem(const StepSchedule& schedule, const MemoryPlan& plan) {
  require_verified(schedule, plan);
  return true;
}

}  // namespace

TEST_CASE("a GPU's kernels have their workspace at rest, for as long as the run lives") {
  const PlannedRun gpu = plan_shape(shape_on(DeviceKind::cuda, Transfer::nccl));
  REQUIRE(gpu.schedule.reserved(Reserved::kernel_workspace));
  const Storage& workspace = gpu.schedule.storage(gpu.schedule.reserved(Reserved::kernel_workspace));
  CHECK(workspace.bytes == kernel_needs(DeviceKind::cuda).workspace());
  CHECK(workspace.region == RegionKind::at_rest);
  CHECK(workspace.category == Category::workspace);
  CHECK(gpu.plan.at(MemorySpace::device).at_peak[static_cast<std::size_t>(Category::workspace)] >= workspace.bytes);
  CHECK(check_memory_plan(gpu.schedule, gpu.plan).empty());
  for (const StorageId other : gpu.schedule.storages.ids()) {
    const Storage& storage = gpu.schedule.storage(other);
    const bool beside = storage.region == RegionKind::at_rest && storage.space == MemorySpace::device;
    if (other == gpu.schedule.reserved(Reserved::kernel_workspace) || !beside) continue;
    const std::int64_t at = gpu.plan.offset[other];
    const std::int64_t here = gpu.plan.offset[gpu.schedule.reserved(Reserved::kernel_workspace)];
    REQUIRE((at + storage.bytes <= here || here + workspace.bytes <= at));
  }
  CHECK(!plan_shape(shape_on(DeviceKind::cpu, Transfer::host)).schedule.reserved(Reserved::kernel_workspace));
}

TEST_CASE("the gradient of a GPT-2's residual stream has its partial sums behind it on a GPU") {
  for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda}) {
    const bool gpu = device == DeviceKind::cuda;
    const RunShape shape = shape_on(device, gpu ? Transfer::nccl : Transfer::host);
    const PlannedRun run = plan_shape(shape);
    CHECK((run.schedule.model.gradient_sum_rows > 0) == gpu);
    std::int64_t found = 0;
    for (const ValueId id : run.schedule.values.ids()) {
      const Value& value = run.schedule.value(id);
      if (value.kind != ValueKind::activation_gradient) continue;
      ++found;
      CHECK(value.elements == run.schedule.model.residual_gradient_elements());
      CHECK(run.schedule.storage_of(id).bytes >= value.elements * size_of(value.dtype()));
    }
    CHECK(found > 2 * shape.architecture.layers);
    StepSchedule narrow = run.schedule;  // as if there were no room for the sums
    for (Value& value : narrow.values) {
      if (value.kind == ValueKind::activation_gradient) --value.elements;
    }
    CHECK(rejected(narrow, "the residual gradient has another size than its parts write"));
  }
}

TEST_CASE("sums have room for what they receive, and only while they last") {
  for (const StrategyRules& rules : all_strategies()) {
    const Strategy strategy = rules.strategy;
    for (const Transfer transfer : {Transfer::host, Transfer::nccl, Transfer::staged}) {
      const DeviceKind device = transfer == Transfer::host ? DeviceKind::cpu : DeviceKind::cuda;
      RunShape shape = shape_on(device, transfer, 4);  // two nodes
      shape.policy.strategy = strategy;
      INFO(name_of(strategy) << " transfer " << static_cast<int>(transfer));
      const PlannedRun run = plan_shape(shape);
      const StepSchedule& s = run.schedule;
      std::int64_t sums = 0, sum_of_scratch = 0, largest = 0;
      for (const Operation& op : s.operations) {
        if (!s.communicates(op)) continue;
        const std::int64_t bytes = scratch_bytes(s, op), ranks = s.grid.size(op.group);
        const bool between_nodes = transfer == Transfer::host && !s.grid.within_node(op.group);
        if (op.kind == OperationKind::reduce_scatter) {
          ++sums;
          const std::int64_t slice = s.value(op.writes[0]).elements * size_of(s.value(op.reads[0]).dtype());
          if (transfer == Transfer::nccl) CHECK(bytes == ranks * slice);
          if (between_nodes) CHECK(bytes == std::min(ranks * slice, ranks * message_block_bytes(ranks)));
          if (!between_nodes && transfer != Transfer::nccl) CHECK(bytes == 0);
          sum_of_scratch += bytes;
          largest = std::max(largest, bytes);
        } else if (op.kind == OperationKind::all_reduce) {
          CHECK((bytes > 0) == between_nodes);
        } else {
          CHECK(bytes == 0);
        }
      }
      CHECK(sums > 0);
      CHECK(host_memory(s).contains("exchange") == (device == DeviceKind::cuda));
      CHECK(host_memory(s).contains("staging") == (transfer == Transfer::staged));
      CHECK(run.plan.fragmentation() <= 0.05);
      if (transfer != Transfer::nccl) continue;
      shape.policy.transfer = Transfer::staged;  // the same without
      const std::int64_t more = run.plan.total() - plan_shape(shape).plan.total();
      CHECK(sum_of_scratch > 3 * largest);
      CHECK(more <= 2 * largest);  // two at a time at most: reduced over both of hsdp's groups
    }
  }
}

TEST_CASE("sums of NCCL's own need room only where they are converted") {
  RunShape shape = shape_on(DeviceKind::cuda, Transfer::nccl);
  shape.policy.deterministic = false;
  for (const DType reduce : {DType::fp32, DType::bf16}) {
    shape.policy.compute = shape.policy.reduce = reduce;
    const PlannedRun run = plan_shape(shape);
    for (const Operation& op : run.schedule.operations) {
      if (op.kind != OperationKind::reduce_scatter) continue;
      const std::int64_t slice = run.schedule.value(op.writes[0]).elements * size_of(reduce);
      CHECK(scratch_bytes(run.schedule, op) == (reduce == DType::fp32 ? 0 : slice));
    }
  }
}

TEST_CASE("host memory that a GPU's steps and staged collectives pass through lies in the plan") {
  const PlannedRun nccl = plan_shape(shape_on(DeviceKind::cuda, Transfer::nccl));
  CHECK(!nccl.schedule.reserved(Reserved::staging));
  CHECK(nccl.plan.at(MemorySpace::host).total() ==
        round_up(exchange_bytes(2 * nccl.schedule.model.tokens()), kStorageAlignment));

  for (const std::int64_t ranks_per_node : {8, 4}) {
    RunShape shape = shape_on(DeviceKind::cuda, Transfer::staged, ranks_per_node);
    shape.policy.strategy = Strategy::hsdp;
    const PlannedRun run = plan_shape(shape);
    const StepSchedule& s = run.schedule;
    CHECK(require_no_problem(s, run.plan));
    std::int64_t largest = 0;
    for (const Unit& unit : s.layout.units) largest = std::max(largest, unit.padded * size_of(s.policy.reduce));
    REQUIRE(s.reserved(Reserved::staging));
    CHECK(s.storage(s.reserved(Reserved::staging)).region == RegionKind::shared);
    CHECK(s.storage(s.reserved(Reserved::staging)).bytes >= largest);
    CHECK(s.storage(s.reserved(Reserved::staging)).bytes < 2 * largest + 1024);
    CHECK(bool(s.reserved(Reserved::messages)) == (ranks_per_node < 8));
    if (s.reserved(Reserved::messages))
      CHECK(s.storage(s.reserved(Reserved::messages)).bytes == 2 * message_block_bytes(2));
  }
  CHECK(plan_shape(shape_on(DeviceKind::cpu, Transfer::host, 4)).plan.at(MemorySpace::host).total() == 0);
}

TEST_CASE("GPU plans stay within 5% of the bound") {
  const bool all = std::getenv("TESSERA_LONG") != nullptr;
  int number = 0;
  for (const std::string& name : preset_names()) {
    for (const StrategyRules& rules : all_strategies()) {
      const Strategy strategy = rules.strategy;
      for (const bool deterministic : {true, false}) {
        if (!all && ++number % 11 != 0) continue;
        RunShape shape = shape_on(DeviceKind::cuda, Transfer::nccl, 4);
        shape.architecture = preset(name);
        shape.policy.strategy = strategy;
        shape.policy.deterministic = deterministic;
        shape.policy.compute = shape.policy.reduce = DType::bf16;
        INFO(name << " " << name_of(strategy) << " deterministic=" << deterministic);
        const PlannedRun run = plan_shape(shape);
        REQUIRE(check_memory_plan(run.schedule, run.plan).empty());
        for (const RegionPlan& region : run.plan.at(MemorySpace::device).regions)
          REQUIRE(static_cast<double>(region.bytes) <= 1.05 * static_cast<double>(region.lower_bound));
      }
    }
  }
}

TEST_CASE("another strategy takes its own default for shard.reduce, unless the user chose") {
  RunShape shape;
  shape.policy.strategy = Strategy::ddp;
  shape.policy.accumulation = 2;
  shape.policy.reduce_each_micro_step = false;
  REQUIRE(with_strategy(shape, Strategy::zero3).policy.reduce_each_micro_step);
  REQUIRE_FALSE(with_strategy(shape, Strategy::zero1).policy.reduce_each_micro_step);
  shape.reduce_by_strategy = false;
  REQUIRE_FALSE(with_strategy(shape, Strategy::zero3).policy.reduce_each_micro_step);
}

TEST_CASE("an MLP in chunks keeps and recomputes nothing by itself, and is refused where it must not be in chunks") {
  const auto shape_with = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"--train.seq_len=32", "--train.micro_batch=1", "--memory.mlp_chunk=20"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_shape(parse_arguments(arguments), {preset("nano"), 1, 1});
  };
  for (const char* const parts : {"attention", "mlp", "attention,mlp"}) {
    INFO(parts);
    const RunShape shape = shape_with({"--memory.checkpoint=selective", "--train.sample_every=2",
                                       fmt::format("--memory.checkpoint_parts={}", parts)});
    const auto [schedule, plan] = plan_shape(shape);
    require_no_problem(schedule, plan);
    for (const Operation& op : schedule.operations)
      CHECK((op.kind != OperationKind::recompute || schedule.part(op.part).kind == PartKind::attention));
    for (const Value& value : schedule.values)
      CHECK((value.kind != ValueKind::saved || schedule.part(value.part).kind == PartKind::attention));
  }
  CHECK_FALSE(shape_with({"--run.device=cuda"}).policy.keeps_activated);
  CHECK(shape_with({"--train.seq_len=20", "--precision.reduce=bf16"}).policy.mlp_chunk == 0);  // all are one chunk
  CHECK_THROWS_WITH(shape_with({"--memory.checkpoint=selective", "--memory.checkpoint_parts=mlp",
                                "--memory.offload_activations=true"}),
                    Catch::Contains("offloads nothing when only MLPs are recomputed"));
  CHECK_THROWS_WITH(shape_with({"--precision.reduce=bf16"}), Catch::Contains("precision.reduce = bf16 would round"));
  CHECK_THROWS_WITH(shape_with({"--memory.keep_activated=true"}), Catch::Contains("mlp_chunk = 20 keeps nothing"));
  CHECK_THROWS_WITH(shape_with({"--precision.linear=fp8", "--precision.fp8_smallest=0"}),
                    Catch::Contains("memory.mlp_chunk = 20") && Catch::Contains("precision.linear = compute"));
}
