// Adapters on emulated GPUs: the layers are those of the CPU.
#include <catch2/catch.hpp>

#include "gpu_case.hpp"
#include "tessera/model/adapters.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("adapters on one GPU follow the CPU, and sharded ones have the bits of one GPU") {
  Options options = gpu_options();
  options.optim.lr = 0.05;  // so that B leaves zero
  Architecture architecture = GENERATE(tiny_gpt2(), small_model(Family::qwen2));
  const double dropout = GENERATE(0.0, 0.25);
  architecture.adapters = {3, 6, dropout, false, named_modules(architecture, "all")};
  options.train.micro_batch = 1, options.train.accumulation = 2;
  const RunOutcome gpu = train_locally(options, architecture, 1, 1);
  options.run.device = DeviceKind::cpu;
  const RunOutcome cpu = train_locally(options, architecture, 1, 1);
  REQUIRE(gpu.losses.size() == cpu.losses.size());
  CHECK(gpu.losses.front() != gpu.losses.back());
  CAPTURE(dropout);
  for (std::size_t i = 0; i < cpu.losses.size(); ++i) {
    CHECK(gpu.losses[i] == Approx(cpu.losses[i]).epsilon(1e-5));
    CHECK(gpu.norms[i] == Approx(cpu.norms[i]).epsilon(1e-4));
  }
  options.run.device = DeviceKind::cuda;
  options.train.accumulation = 1;
  const GpuCount two(2);
  const RunOutcome sharded = train_locally(options, architecture, 2, 2);
  CHECK(sharded.losses == gpu.losses);
  CHECK(sharded.norms == gpu.norms);
}
