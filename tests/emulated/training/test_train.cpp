// Whole training sessions on emulated GPUs: the same schedules, played on streams.

#include <catch2/catch.hpp>
#include <cmath>

#include "gpu_case.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

double distance(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  double difference = 0, size = 0;
  for (std::size_t t = 0; t < a.size(); ++t) {
    for (std::size_t i = 0; i < a[t].size(); ++i) {
      const double x = static_cast<double>(a[t][i]), y = static_cast<double>(b[t][i]);
      difference += (x - y) * (x - y);
      size += y * y;
    }
  }
  return std::sqrt(difference / size);
}

}  // namespace

TEST_CASE("one GPU follows the CPU") {
  Options options = gpu_options();
  const Architecture architecture = tiny_gpt2();
  const RunOutcome gpu = train_locally(options, architecture, 1, 1);
  options.run.device = DeviceKind::cpu;
  const RunOutcome cpu = train_locally(options, architecture, 1, 1);
  REQUIRE(gpu.losses.size() == cpu.losses.size());
  for (std::size_t i = 0; i < cpu.losses.size(); ++i) {
    CHECK(gpu.losses[i] == Approx(cpu.losses[i]).epsilon(2e-6));
    CHECK(gpu.norms[i] == Approx(cpu.norms[i]).epsilon(2e-5));
  }
  CHECK(gpu.evaluations[0] == Approx(cpu.evaluations[0]).epsilon(2e-6));
  CHECK(distance(gpu.gradients, cpu.gradients) < 1e-5);
  CHECK(distance(gpu.weights, cpu.weights) < 1e-4);
}

TEST_CASE("gradients that backward adds to a running sum follow those that are summed in order") {
  Options options = gpu_options();
  options.train.micro_batch = 1, options.train.accumulation = 3;
  const Architecture architecture = GENERATE(tiny_gpt2(), small_model(Family::qwen2));
  const RunOutcome summed = train_locally(options, architecture, 1, 1);
  CHECK_FALSE(policy_from(options).adds_in_backward);
  options.run.deterministic = Tristate::no;
  CHECK(policy_from(options).adds_in_backward);
  MachineShape poisoned;
  poisoned.poison = true;
  const RunOutcome added = train_locally(options, architecture, 1, 1, poisoned);
  for (std::size_t i = 0; i < summed.losses.size(); ++i) {
    CHECK(added.losses[i] == Approx(summed.losses[i]).epsilon(1e-5));
    CHECK(added.norms[i] == Approx(summed.norms[i]).epsilon(2e-5));
  }
  CHECK(distance(added.gradients, summed.gradients) < 1e-5);
}

TEST_CASE("graphs, queues, chaos and poison leave no trace", "[long]") {
  Options options = gpu_options();
  options.train.accumulation = 3;
  options.train.micro_batch = 1;
  const Architecture architecture = tiny_gpt2();
  options.run.graph = false;
  options.run.queues = QueueMode::serial;
  const RunOutcome plain = train_locally(options, architecture, 1, 1);
  const auto same = [&](const RunOutcome& run) { return same_run(run, plain); };
  CHECK(std::isfinite(plain.losses.back()));
  MachineShape poisoned;
  poisoned.poison = true;
  options.run.queues = QueueMode::parallel;
  emulator::set_chaos(7);
  CHECK(same(train_locally(options, architecture, 1, 1, poisoned)));
  options.run.graph = true;
  CHECK(same(train_locally(options, architecture, 1, 1, poisoned)));
  emulator::set_chaos(1);
}

TEST_CASE("several GPUs, staged: strategies leave no trace, and the bits are those of one GPU", "[long]") {
  const GpuCount gpus(2);
  Options options = gpu_options();
  options.train.micro_batch = 1;
  options.train.accumulation = 2;
  const Architecture architecture = tiny_gpt2();
  options.shard.strategy = Strategy::ddp;
  const RunOutcome alone = train_locally(options, architecture, 1, 1);
  options.train.accumulation = 1;
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero2, Strategy::zero3}) {
    options.shard.strategy = strategy;
    INFO(name_of(strategy));
    const RunOutcome run = train_locally(options, architecture, 2, 2);
    CHECK(same_run(run, alone));
    CHECK(run.bytes_sent == run.bytes_planned);
  }
}

TEST_CASE("four GPUs: hsdp 2 x 2 and zero3 have the bits of one GPU", "[long]") {
  Options options = gpu_options();
  options.train.steps = 2;
  options.train.micro_batch = 1;
  options.train.accumulation = 4;
  options.train.eval_batches = 1;
  options.shard.strategy = Strategy::ddp;
  const Architecture architecture = tiny_gpt2();
  const RunOutcome alone = train_locally(options, architecture, 1, 1);
  options.train.accumulation = 1;
  const auto check = [&](const RunOutcome& run) {
    INFO(name_of(options.shard.strategy) << (options.run.share_gpu ? ", GPUs shared" : ""));
    CHECK(same_run(run, alone));
    CHECK(run.bytes_sent == run.bytes_planned);
  };
  const GpuCount gpus(4);
  options.shard.strategy = Strategy::zero3;
  check(train_locally(options, architecture, 4, 4));
  options.shard.strategy = Strategy::hsdp;
  options.shard.group_size = 2;
  check(train_locally(options, architecture, 4, 2));  // replicas on two nodes
  emulator::set_device_count(2);
  options.run.share_gpu = true;
  check(train_locally(options, architecture, 4, 4));
}

TEST_CASE("staged collectives go between graphs: the same bits as eagerly, whatever is late", "[long]") {
  const GpuCount gpus(2);
  Options options = gpu_options();
  options.train.micro_batch = 1;
  options.train.accumulation = 2;
  options.train.steps = 5;
  options.shard.strategy = Strategy::zero3;
  const Architecture architecture = tiny_gpt2();
  options.run.graph = false;
  std::int64_t before = emulator::graph_launches();
  const RunOutcome eager = train_locally(options, architecture, 2, 2);
  CHECK(emulator::graph_launches() == before + 2);  // each device tries a captured write when it is opened
  options.run.graph = true;
  MachineShape poisoned;
  poisoned.poison = true;
  before = emulator::graph_launches();
  emulator::set_chaos(6);
  const RunOutcome run = train_locally(options, architecture, 2, 2, poisoned);
  emulator::set_chaos(1);
  CHECK(emulator::graph_launches() - before > 2 * 2 * 3 * 4);  // ranks, steps, segments and several graphs in each
  CHECK(same_run(run, eager));
  CHECK(run.bytes_sent == run.bytes_planned);
}

TEST_CASE("NCCL in graphs has the bits of the staged backend") {
  const GpuCount gpus(2);
  Options options = gpu_options();
  options.train.micro_batch = 1, options.train.accumulation = 2;
  options.shard.strategy = GENERATE(Strategy::ddp, Strategy::zero3);
  const Architecture architecture = tiny_gpt2();
  const RunOutcome staged = train_locally(options, architecture, 2, 2);
  options.comm.backend = CommBackend::nccl;
  for (const bool graph : {false, true, true, true}) {  // later captures may lie where earlier ones did
    options.run.graph = graph;
    const RunOutcome nccl = train_locally(options, architecture, 2, 2);
    CHECK(same_run(nccl, staged));
    CHECK(nccl.bytes_sent == nccl.bytes_planned);  // of the last step, which is replayed
  }
}

TEST_CASE("ranks share a GPU only where they may") {
  Options options = gpu_options();
  options.train.steps = 2;
  options.train.micro_batch = 1;
  const Architecture architecture = tiny_gpt2();
  CHECK_THROWS_WITH(train_locally(options, architecture, 2, 2), Catch::Contains("run.share_gpu"));
  options.run.share_gpu = true;
  CHECK(train_locally(options, architecture, 2, 2).losses.size() == 2);
}
