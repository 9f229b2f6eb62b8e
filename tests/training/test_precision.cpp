// precision.compute and precision.reduce: 16-bit training follows fp32, and all ranks agree on fp16's loss scale.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>

#include "session_case.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/model/initialize.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("bf16 and fp16 follow fp32, the same bits under every strategy of one world") {
  Options options = base_options();
  options.train.steps = 12;
  const Architecture architecture = GENERATE(small_model(Family::gpt2), small_model(Family::llama));
  options.train.accumulation = 2;
  options.shard.strategy = Strategy::ddp;
  const RunOutcome exact = train_locally(options, architecture, 2, 2);
  for (const DType compute : {DType::bf16, DType::fp16}) {
    for (const DType reduce : {DType::fp32, compute}) {
      options.precision.compute = compute;
      options.precision.reduce = reduce;
      options.shard.strategy = Strategy::zero1;
      const RunOutcome reference = train_locally(options, architecture, 2, 2);
      INFO(name_of(compute) << " reduce " << name_of(reduce));
      REQUIRE(reference.losses.size() == exact.losses.size());
      REQUIRE(reference.losses != exact.losses);
      for (std::size_t i = 0; i < exact.losses.size(); ++i)
        REQUIRE(std::abs(reference.losses[i] / exact.losses[i] - 1) < 0.03);
      for (const Strategy strategy : {Strategy::zero2, Strategy::zero3}) {
        options.shard.strategy = strategy;
        options.shard.reduce = ReduceWhen::step;  // as zero1's default
        const RunOutcome run = train_locally(options, architecture, 2, 2);
        REQUIRE(run.losses == reference.losses);
        REQUIRE(run.norms == reference.norms);
        REQUIRE(run.bytes_sent == run.bytes_planned);
        options.shard.reduce = ReduceWhen::by_strategy;
      }
    }
  }
}

namespace {

/// The host's and the kernels' side of one optimizer, on the CPU.
struct Steps {
  explicit Steps(bool scales_loss) : optimizer({OptimOptions{}, 10, scales_loss}, 1) { sums.clear(); }
  void clip() { kernels->clip(*stream, optimizer.clip_arguments(&sums, &optimizer.scalars())); }
  ThreadPool pool{1};
  std::unique_ptr<Kernels> kernels = make_cpu_kernels(pool);
  std::unique_ptr<Stream> stream = make_serial_stream("test");
  Optimizer optimizer;
  ScalarPayload sums;
};

}  // namespace

TEST_CASE("the optimizer halves the loss scale on overflow, skips the update, and recovers") {
  Steps steps(true);
  Optimizer& optimizer = steps.optimizer;
  ScalarPayload& sums = steps.sums;
  sums.loss.add(20.0);
  sums.square_norm.add(std::numeric_limits<double>::infinity());
  optimizer.begin_step(1, 10);
  const float scale = optimizer.scalars().loss_scale;
  CHECK(optimizer.scalars().gradient_scale == scale / 10);
  steps.clip();
  CHECK(optimizer.result().skipped);
  CHECK(optimizer.result().finite);
  CHECK(optimizer.result().loss == Approx(2.0));
  CHECK(optimizer.result().loss_scale == scale);
  CHECK(optimizer.scalars().skip == 1);
  CHECK(optimizer.scalars().adam_step == 0);
  optimizer.begin_step(2, 10);
  REQUIRE(optimizer.scalars().loss_scale == scale / 2);
  CHECK(optimizer.scalars().gradient_scale == scale / 2 / 10);
  sums.square_norm.clear();
  sums.square_norm.add(9.0 * (scale / 2) * (scale / 2));
  steps.clip();
  CHECK_FALSE(optimizer.result().skipped);
  CHECK(optimizer.result().grad_norm == Approx(3.0));
  CHECK(optimizer.scalars().skip == 0);
  CHECK(optimizer.scalars().adam_step == 1);
  CHECK(optimizer.skipped_steps() == 1);
  for (int i = 2; i <= 2000; ++i) steps.clip();
  CHECK(optimizer.scalars().loss_scale == scale);  // after 2000 good steps
}

TEST_CASE("a restored loss scale is that of the next gradients") {
  const OptimizerRecord record{9, 7, 2, 1024.0};
  Steps steps(true);
  steps.optimizer.restore(record);
  REQUIRE(steps.optimizer.record() == record);
  REQUIRE(steps.optimizer.scalars().gradient_scale == 1024.0F / 10);
  Steps wide(false);
  wide.optimizer.restore(record);
  REQUIRE(wide.optimizer.scalars().loss_scale == 1);
  REQUIRE(wide.optimizer.scalars().adam_step == 9);
}

TEST_CASE("a loss that is not finite is no overflow") {
  Steps steps(false);
  steps.sums.loss.add(std::nan(""));
  steps.sums.square_norm.add(1.0);
  steps.optimizer.begin_step(1, 10);
  steps.clip();
  REQUIRE_FALSE(steps.optimizer.result().finite);
  REQUIRE(steps.optimizer.scalars().skip == 1);
}

TEST_CASE("the account of a step starts with its first micro-batch and knows which losses count") {
  Steps steps(false);
  StepScalars& scalars = steps.optimizer.scalars();
  const auto account = [&](double loss, bool starts) {
    scalars.micro_loss = loss;
    steps.kernels->account_loss(*steps.stream, {&scalars, &steps.sums, starts});
  };
  steps.sums.loss.add(1e9);
  steps.sums.square_norm.add(3.0);
  scalars.stop_requested = 7;
  account(2.5, true);
  account(4.0, false);
  scalars.counts_loss = 0;
  account(8.0, false);
  CHECK(steps.sums.loss.value() == 6.5);
  CHECK(steps.sums.square_norm.value() == 0);
  CHECK(steps.sums.stop_requested == 7);
}

TEST_CASE("learning rate schedules") {
  OptimOptions o;
  o.lr = 1.0;
  o.min_lr = 0.1;
  o.warmup_steps = 10;
  o.schedule = LearningRateSchedule::cosine;
  REQUIRE(learning_rate(o, 1, 110) == Approx(0.1));
  REQUIRE(learning_rate(o, 10, 110) == Approx(1.0));
  REQUIRE(learning_rate(o, 11, 110) == Approx(1.0));
  REQUIRE(learning_rate(o, 61, 110) == Approx(0.55));
  // The last step is one above min_lr, as nanoGPT, llm.c and Transformers have it.
  const double last = 0.1 + 0.45 * (1.0 + std::cos(std::numbers::pi * 0.99));
  REQUIRE(learning_rate(o, 110, 110) == Approx(last));
  o.schedule = LearningRateSchedule::linear;
  REQUIRE(learning_rate(o, 61, 110) == Approx(0.55));
  REQUIRE(learning_rate(o, 110, 110) == Approx(0.109));
  o.schedule = LearningRateSchedule::wsd;
  o.decay_fraction = 0.2;
  REQUIRE(learning_rate(o, 88, 110) == Approx(1.0));
  REQUIRE(learning_rate(o, 89, 110) == Approx(1.0));
  REQUIRE(learning_rate(o, 100, 110) == Approx(0.55));
  REQUIRE(learning_rate(o, 110, 110) == Approx(0.1 + 0.9 / 22));
  o.decay_fraction = 0.0;  // never falls
  REQUIRE(learning_rate(o, 110, 110) == Approx(1.0));
  o.decay_fraction = 0.29;  // 28.999999999999996 of 100 in doubles
  REQUIRE(decay_steps(o, 100) == 29);
  o.decay_fraction = 0.58;
  REQUIRE(decay_steps(o, 50) == 29);
  o.decay_fraction = 1.0;
  REQUIRE(decay_steps(o, 110) == 110);
  o.schedule = LearningRateSchedule::constant;
  REQUIRE(learning_rate(o, 110, 110) == Approx(1.0));
  // A run of one step with the defaults trains.
  REQUIRE(learning_rate(OptimOptions{}, 1, 1) == OptimOptions{}.lr);
}

namespace {

/// Returns the usual initial weights, but another gain of the last norm: gradients of the token table grow with it.
TensorSource with_last_gain(const Architecture& architecture, float gain) {
  return [tensors = parameter_tensors(architecture), gain](TensorId tensor, std::int64_t first, std::span<float> out) {
    const ParameterTensor& t = tensors[static_cast<std::size_t>(tensor)];
    initialize_slice(t, tensor, 1, first, out);
    if (t.name == "transformer.ln_f.weight") std::fill(out.begin(), out.end(), gain);
  };
}

double largest(const std::vector<std::vector<float>>& tensors) {
  double most = 0;
  for (const auto& tensor : tensors) {
    for (const float x : tensor) most = std::max(most, std::abs(static_cast<double>(x)));
  }
  return most;
}

}  // namespace

TEST_CASE("an overflow of the sum alone is found under every strategy") {
  // Each rank's part is finite in fp16, their sum is not: the step must be skipped, not applied.
  Options options = base_options();
  options.train.micro_batch = 1;
  options.train.steps = 1;
  options.optim.clip = 0;
  options.optim.warmup_steps = 0;
  const Architecture architecture = small_gpt2();
  for (const auto& [accumulation, gain] : {std::pair{1, 2.4f}, std::pair{2, 2.45f}}) {
    options.train.accumulation = accumulation;
    const TensorSource weights = with_last_gain(architecture, gain);
    // The loss scale starts at 2^16: a gradient of 1 overflows. This sum is just above; each rank's part, and that of
    // two ranks, is below (else zero1 and zero3 would skip too).
    options.shard.strategy = Strategy::ddp;
    options.shard.group_size = 0;
    options.precision.compute = options.precision.reduce = DType::fp32;
    const double sum = largest(train_locally(options, architecture, 4, 4, {}, weights).gradients);
    INFO("largest gradient " << sum << ", K " << accumulation);
    REQUIRE(sum > 1.01);
    REQUIRE(sum < 1.1);
    options.precision.compute = options.precision.reduce = DType::fp16;
    for (const Strategy strategy :
         {Strategy::ddp, Strategy::zero1, Strategy::zero3, Strategy::hsdp, Strategy::hsdp_zero1}) {
      options.shard.strategy = strategy;
      options.shard.group_size = rules_of(strategy).is_hybrid() ? 2 : 0;
      // Updates read fp16 only if the gradient was gathered in full for them; shards are fp32.
      const bool overflows = strategy == Strategy::ddp || rules_of(strategy).is_hybrid();
      for (const ReduceWhen reduce : {ReduceWhen::micro_step, ReduceWhen::step}) {
        options.shard.reduce = reduce;
        const RunOutcome run = train_locally(options, architecture, 4, 4, {}, weights);
        INFO(name_of(strategy) << (reduce == ReduceWhen::step ? ", reduced once" : ", reduced each micro-step"));
        CHECK((run.skipped > 0) == overflows);
        for (const auto& tensor : run.weights)
          CHECK(std::ranges::all_of(tensor, [](float weight) { return std::isfinite(weight); }));
      }
    }
  }
}

TEST_CASE("16-bit ddp and hsdp follow fp32") {
  Options options = base_options();
  options.train.steps = 12;
  options.train.accumulation = 2;
  const Architecture architecture = small_gpt2();
  options.shard.strategy = Strategy::ddp;
  const RunOutcome exact = train_locally(options, architecture, 4, 4);
  for (const DType type : {DType::bf16, DType::fp16}) {
    options.precision.compute = options.precision.reduce = type;
    for (const Strategy strategy : {Strategy::ddp, Strategy::hsdp, Strategy::hsdp_zero2, Strategy::hsdp_zero1}) {
      options.shard.strategy = strategy;
      options.shard.group_size = strategy == Strategy::ddp ? 0 : 2;
      const RunOutcome run = train_locally(options, architecture, 4, 4);
      INFO(name_of(strategy) << " " << name_of(type));
      for (std::size_t i = 0; i < exact.losses.size(); ++i)
        REQUIRE(std::abs(run.losses[i] / exact.losses[i] - 1) < 0.03);
      REQUIRE(run.bytes_sent == run.bytes_planned);
    }
  }
}
