// precision.linear = fp8 on emulated GPUs: it follows the CPU, and strategies have the bits of one GPU.

#include <catch2/catch.hpp>
#include <cmath>

#include "gpu_case.hpp"
#include "gpu_emulator/libraries/cublaslt/cublaslt.hpp"
#include "tessera/backend/cuda_device.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

Options fp8_on_gpu() {
  Options options = gpu_options();
  options.precision.linear = LinearPrecision::fp8;
  options.precision.fp8_smallest = 0;
  options.train.micro_batch = 1, options.train.accumulation = 2;
  options.shard.strategy = Strategy::ddp;
  return options;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    all += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(squares / all);
}

}  // namespace

TEST_CASE("fp8 linears on one GPU follow the CPU: matmuls that fit the library, and those that are padded for it") {
  const Architecture architecture = GENERATE(tiny_gpt2(), small_gpt2(), small_model(Family::qwen3));
  Options options = fp8_on_gpu();
  options.precision.fp8_gradients = architecture.width == 16 ? Fp8::e4m3 : Fp8::e5m2;
  static_cast<void>(emulator::take_fp8_launches());
  const RunOutcome gpu = train_locally(options, architecture, 1, 1);
  const auto launches = emulator::take_fp8_launches();
  CHECK((launches[0] > 0 && launches[1] > 0));
  options.run.device = DeviceKind::cpu;
  const RunOutcome cpu = train_locally(options, architecture, 1, 1);
  REQUIRE(gpu.losses.size() == cpu.losses.size());
  CHECK(std::abs(gpu.losses[0] / cpu.losses[0] - 1) < 1e-5);
  for (std::size_t i = 0; i < cpu.losses.size(); ++i) CHECK(std::abs(gpu.losses[i] / cpu.losses[i] - 1) < 5e-3);
  for (const TensorId id : cpu.gradients.ids()) {
    INFO("tensor " << id.number());
    CHECK(distance(gpu.gradients[id], cpu.gradients[id]) < 1e-4);
  }
  options.precision.linear = LinearPrecision::compute;
  CHECK(train_locally(options, architecture, 1, 1).losses != cpu.losses);
}

TEST_CASE("fp8 linears have the bits of one GPU under strategies, in graphs and without, in 16 bits and 32") {
  Options options = fp8_on_gpu();
  options.precision.compute = GENERATE(DType::fp32, DType::bf16);
  options.train.accumulation = 4, options.train.eval_every = 2, options.train.eval_batches = 2;
  const RunOutcome alone = train_locally(options, tiny_gpt2(), 1, 1);
  options.run.graph = false;
  CHECK(same_run(train_locally(options, tiny_gpt2(), 1, 1), alone));
  options.run.graph = true;
  const GpuCount gpus(2);
  options.train.accumulation = 2;
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero2, Strategy::zero3}) {
    INFO(name_of(strategy));
    options.shard.strategy = strategy;
    const bool is_sharded = strategy == Strategy::zero3;
    options.comm.backend = is_sharded ? CommBackend::nccl : CommBackend::staged;
    options.memory.checkpoint = is_sharded ? ActivationCheckpointing::block : ActivationCheckpointing::none;
    const RunOutcome run = train_locally(options, tiny_gpt2(), 2, 2);
    CHECK(same_run(run, alone));
    CHECK(run.bytes_sent == run.bytes_planned);
  }
}

TEST_CASE("fp8 linears have the same bits where SwiGLU's output is kept, as codes, and where it is made again") {
  Options options = fp8_on_gpu();
  options.memory.keep_activated = Tristate::no;
  const RunOutcome again = train_locally(options, small_model(Family::qwen2), 1, 1);
  options.memory.keep_activated = Tristate::yes;
  options.memory.checkpoint = GENERATE(ActivationCheckpointing::none, ActivationCheckpointing::block);
  CHECK(same_run(train_locally(options, small_model(Family::qwen2), 1, 1), again));
}

TEST_CASE("fp8 linears: a GPU whose tensor cores do not multiply 8-bit floats is refused") {
  emulator::set_capability(8, 6);
  CHECK_THROWS_WITH(train_locally(fp8_on_gpu(), tiny_gpt2(), 1, 1),
                    Catch::Contains("does not work with a GPU of compute capability 8.6"));
  emulator::set_capability(9, 0);
}

TEST_CASE("fp8 linears: a build whose code for the GPU is older than 8-bit floats is refused") {
  emulator::set_code_capability(80);
  CHECK_THROWS_WITH(train_locally(fp8_on_gpu(), tiny_gpt2(), 1, 1),
                    Catch::Contains("is sm_80. Use a build with TESSERA_CUDA_ARCHITECTURES=90"));
  CHECK_FALSE(make_cuda_device(0)->multiplies_fp8());
  emulator::set_code_capability(90);
  CHECK(make_cuda_device(0)->multiplies_fp8());
}
