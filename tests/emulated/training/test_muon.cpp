// Muon on emulated GPUs: near the CPU, whose iterations are in fp32, and the same bits whoever owns which matrix.

#include <catch2/catch.hpp>

#include "gpu_case.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("Muon on GPUs is near the CPU, and has the same bits under strategies, in graphs, staged and over NCCL") {
  Options options = gpu_options();
  options.train.micro_batch = 1;
  options.train.accumulation = 2;
  options.train.steps = 4;
  options.optim.name = OptimizerName::muon;
  options.optim.moments = StateType::bf16;
  const Architecture architecture = small_model(Family::qwen3);
  const RunOutcome alone = train_locally(options, architecture, 1, 1);
  options.run.device = DeviceKind::cpu;
  const RunOutcome cpu = train_locally(options, architecture, 1, 1);
  options.run.device = DeviceKind::cuda;
  for (std::size_t i = 0; i < cpu.losses.size(); ++i) CHECK(alone.losses[i] == Approx(cpu.losses[i]).epsilon(1e-3));
  CHECK(alone.losses.back() != cpu.losses.back());

  const GpuCount gpus(2);
  options.train.accumulation = 1;
  for (const CommBackend backend : {CommBackend::staged, CommBackend::nccl}) {
    options.comm.backend = backend;
    options.shard.strategy = backend == CommBackend::staged ? Strategy::zero1 : Strategy::zero3;
    INFO(name_of(backend) << " " << name_of(options.shard.strategy));
    const RunOutcome run = train_locally(options, architecture, 2, 2);
    CHECK(same_run(run, alone));
    CHECK(run.bytes_sent == run.bytes_planned);
  }
}
