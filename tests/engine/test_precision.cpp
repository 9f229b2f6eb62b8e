// precision.compute and precision.reduce: 16-bit training follows fp32, and fp16's loss scale is agreed on by all
// ranks.
#include <catch2/catch.hpp>
#include <cmath>

#include "session_case.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("bf16 and fp16 follow fp32, the same bits under every strategy of one world") {
  Options options = base_options();
  options.train.steps = 12;
  const Architecture architecture = small_gpt2();
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

TEST_CASE("the optimizer halves the loss scale on overflow, skips the update, and recovers") {
  OptimizerSettings settings;
  settings.global_tokens = 10;
  settings.scales_loss = true;
  Optimizer optimizer(settings, 1);
  ScalarPayload sums;
  sums.clear();
  sums.loss.add(20.0);
  sums.square_norm.add(std::numeric_limits<double>::infinity());
  optimizer.begin_step(1, 10);
  const float scale = optimizer.scalars().loss_scale;
  optimizer.clip(sums);
  REQUIRE(optimizer.result().skipped);
  REQUIRE(optimizer.result().finite);
  REQUIRE(optimizer.scalars().skip == 1);
  REQUIRE(optimizer.scalars().adam_step == 0);
  optimizer.begin_step(2, 10);
  REQUIRE(optimizer.scalars().loss_scale == scale / 2);
  sums.square_norm.clear();
  sums.square_norm.add(9.0 * (scale / 2) * (scale / 2));
  optimizer.clip(sums);
  REQUIRE_FALSE(optimizer.result().skipped);
  REQUIRE(optimizer.result().grad_norm == Approx(3.0));
  REQUIRE(optimizer.scalars().adam_step == 1);
  REQUIRE(optimizer.skipped_steps() == 1);
}

TEST_CASE("a loss that is not finite is no overflow") {
  OptimizerSettings settings;
  settings.global_tokens = 10;
  Optimizer optimizer(settings, 1);
  ScalarPayload sums;
  sums.clear();
  sums.loss.add(std::nan(""));
  sums.square_norm.add(1.0);
  optimizer.begin_step(1, 10);
  optimizer.clip(sums);
  REQUIRE_FALSE(optimizer.result().finite);
  REQUIRE(optimizer.scalars().skip == 1);
}

TEST_CASE("learning rate schedules") {
  OptimOptions o;
  o.lr = 1.0;
  o.min_lr = 0.1;
  o.warmup_steps = 10;
  o.schedule = LearningRateSchedule::cosine;
  REQUIRE(learning_rate(o, 1, 110) == Approx(0.1));
  REQUIRE(learning_rate(o, 10, 110) == Approx(1.0));
  REQUIRE(learning_rate(o, 60, 110) == Approx(0.55));
  REQUIRE(learning_rate(o, 110, 110) == Approx(0.1));
  o.schedule = LearningRateSchedule::linear;
  REQUIRE(learning_rate(o, 60, 110) == Approx(0.55));
  o.schedule = LearningRateSchedule::wsd;
  o.decay_fraction = 0.2;
  REQUIRE(learning_rate(o, 88, 110) == Approx(1.0));
  REQUIRE(learning_rate(o, 99, 110) == Approx(0.55));
  REQUIRE(learning_rate(o, 110, 110) == Approx(0.1));
  o.schedule = LearningRateSchedule::constant;
  REQUIRE(learning_rate(o, 110, 110) == Approx(1.0));
}

TEST_CASE("an overflow of the sum alone is found under every strategy") {
  // Each rank's part is finite in fp16, their sum is not: the step must be skipped, not applied.
  Options options = base_options();
  options.train.steps = 3;
  options.train.micro_batch = 1;
  options.precision.compute = options.precision.reduce = DType::fp16;
  options.optim.clip = 0;
  const Architecture architecture = small_gpt2();
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero1, Strategy::zero3, Strategy::hsdp}) {
    options.shard.strategy = strategy;
    options.shard.group_size = strategy == Strategy::hsdp ? 2 : 0;
    for (const ReduceWhen reduce : {ReduceWhen::micro_step, ReduceWhen::step}) {
      options.shard.reduce = reduce;
      for (const std::int64_t accumulation : {1, 2}) {
        options.train.accumulation = accumulation;
        const RunOutcome run = train_locally(options, architecture, 4, 4);
        INFO(name_of(strategy) << " K " << accumulation);
        for (const auto& tensor : run.weights) {
          for (const float weight : tensor) REQUIRE(std::isfinite(weight));
        }
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
    for (const Strategy strategy : {Strategy::ddp, Strategy::hsdp, Strategy::hsdp_zero2}) {
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
