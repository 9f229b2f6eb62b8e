// 16-bit training on emulated GPUs: it follows the CPU, and the device's decisions about fp16's loss scale hold
// in graphs too.
#include <catch2/catch.hpp>

#include "gpu_case.hpp"
#include "training/sixteen_bits.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("bf16 with sums in fp32: one GPU follows the CPU, and two GPUs have its bits", "[long]") {
  const GpuCount gpus(2);
  Options options = gpu_options();
  options.train.micro_batch = 1;
  options.train.accumulation = 2;
  options.shard.strategy = Strategy::ddp;
  const Architecture architecture = tiny_gpt2();
  const RunOutcome exact = train_locally(options, architecture, 1, 1);
  options.precision.compute = DType::bf16;
  options.precision.reduce = DType::fp32;
  const RunOutcome alone = train_locally(options, architecture, 1, 1);
  CHECK(alone.losses != exact.losses);
  const SixteenBits near(options, architecture, 1);
  near.check_near(alone);
  near.check_gradients(alone);
  near.check_near(exact);
  options.train.accumulation = 1;
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero3}) {
    options.shard.strategy = strategy;
    INFO(name_of(strategy));
    const RunOutcome run = train_locally(options, architecture, 2, 2);
    CHECK(run.bytes_sent == run.bytes_planned);
    CHECK(same_run(run, alone));
  }
}

TEST_CASE("what the MLP has activated is kept, or made again: SwiGLU's bits are the same, and a 16-bit GELU is near") {
  Options options = gpu_options();
  options.train.steps = 3;
  options.memory.keep_activated = Tristate::yes;
  const Architecture gated = small_model(Family::qwen2);
  const RunOutcome kept = train_locally(options, gated, 1, 1);
  options.memory.keep_activated = Tristate::no;
  CHECK(same_run(train_locally(options, gated, 1, 1), kept));

  options.precision.compute = DType::bf16;
  const RunOutcome again = train_locally(options, tiny_gpt2(), 1, 1);
  options.memory.keep_activated = Tristate::yes;
  const RunOutcome library = train_locally(options, tiny_gpt2(), 1, 1);
  CHECK(again.losses != library.losses);
  const SixteenBits near(options, tiny_gpt2(), 1);
  for (const RunOutcome& run : {again, library}) {
    near.check_near(run);
    near.check_gradients(run);
  }
  options.memory.checkpoint = ActivationCheckpointing::block;
  CHECK(same_run(train_locally(options, tiny_gpt2(), 1, 1), library));
}

TEST_CASE("norms of heads in 16 bits are near fp32, and have the same bits under strategies") {
  const GpuCount gpus(2);
  Options options = gpu_options();
  options.train.micro_batch = 1;
  options.train.accumulation = 2;
  Architecture architecture = small_model(Family::qwen3);
  architecture.width = 32, architecture.ffn_width = 48, architecture.head_dim = 16;  // rows of whole packs
  options.optim.lr = 0.001;  // with 0.01 gradients grow tenfold in these steps, and with them what rounding does
  const RunOutcome exact = train_locally(options, architecture, 1, 1);
  options.precision.compute = DType::bf16;
  const RunOutcome alone = train_locally(options, architecture, 1, 1);
  CHECK(alone.losses != exact.losses);
  const SixteenBits near(options, architecture, 1);
  near.check_near(alone);
  near.check_gradients(alone);
  options.train.accumulation = 1;
  options.shard.strategy = Strategy::zero3;
  options.memory.checkpoint = ActivationCheckpointing::block;
  CHECK(same_run(train_locally(options, architecture, 2, 2), alone));
}

TEST_CASE("TF32 is near full fp32, and has the same bits under strategies on one GPU and two") {
  const GpuCount gpus(2);
  Options options = gpu_options();
  options.train.micro_batch = 1;
  options.train.accumulation = 2;
  options.shard.strategy = Strategy::ddp;
  const Architecture architecture = tiny_gpt2();
  const RunOutcome exact = train_locally(options, architecture, 1, 1);
  options.precision.matmul = MatmulPrecision::tf32;
  const RunOutcome alone = train_locally(options, architecture, 1, 1);
  for (std::size_t i = 0; i < exact.losses.size(); ++i) {
    CHECK(alone.losses[i] != exact.losses[i]);
    CHECK(alone.losses[i] == Approx(exact.losses[i]).epsilon(1e-3));
  }
  options.train.accumulation = 1;
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero3}) {
    options.shard.strategy = strategy;
    INFO(name_of(strategy));
    CHECK(same_run(train_locally(options, architecture, 2, 2), alone));
  }
}

TEST_CASE("attention by cuDNN trains as by own kernels, in graphs, with what checkpointing computes again", "[long]") {
  Options options = gpu_options();
  options.precision.compute = DType::bf16;
  options.precision.reduce = DType::fp32;
  const Architecture architecture = tiny_gpt2();
  options.run.attention = AttentionChoice::own;
  const RunOutcome own = train_locally(options, architecture, 1, 1);
  options.run.attention = AttentionChoice::cudnn;
  const RunOutcome forward = train_locally(options, architecture, 1, 1);
  options.run.deterministic = Tristate::no;
  const RunOutcome library = train_locally(options, architecture, 1, 1);
  options.memory.checkpoint = ActivationCheckpointing::block;
  const RunOutcome again = train_locally(options, architecture, 1, 1);
  CHECK(same_run(again, library));
  const SixteenBits near(options, architecture, 1);
  for (const RunOutcome& run : {own, forward, library}) {
    near.check_near(run);
    near.check_gradients(run);
  }
}

TEST_CASE("fp16: an overflow is skipped on the device, in graphs as without") {
  Options options = gpu_options();
  options.train.steps = 6;
  options.train.micro_batch = 1;
  options.optim.warmup_steps = 0;
  options.precision.compute = options.precision.reduce = DType::fp16;
  const Architecture architecture = tiny_gpt2();
  const TensorSource weights = with_last_gain(architecture, 30);
  options.run.graph = false;
  const RunOutcome plain = train_locally(options, architecture, 1, 1, {}, weights);
  CHECK(plain.skipped > 2);  // steps 3 and on are replayed
  CHECK(plain.skipped < 6);
  options.run.graph = true;
  const RunOutcome graphs = train_locally(options, architecture, 1, 1, {}, weights);
  CHECK(graphs.skipped == plain.skipped);
  CHECK(graphs.losses == plain.losses);
  CHECK((graphs.weights == plain.weights));
  const SixteenBits near(options, architecture, 1, weights);
  CHECK(near.cpu.skipped == plain.skipped);
  near.check_near(plain);

  // Nothing of a step that is skipped reaches the weights.
  options.train.steps = 1;
  const RunOutcome skipped = train_locally(options, architecture, 1, 1, {}, weights);
  REQUIRE(skipped.skipped == 1);
  for (const TensorId t : skipped.weights.ids()) {
    std::vector<float> initial(skipped.weights[t].size());
    weights(TensorId(t), 0, initial);
    CHECK(skipped.weights[t] == initial);
  }
}
