// Steps whose loss is not a number: skipped, and located.

#include <catch2/catch.hpp>

#include "training/bad_step_case.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;
using Catch::StartsWith;

TEST_CASE("a skipped step leaves no trace but its samples, whether the bad number is located or not") {
  Options options = base_options();
  options.shard.strategy = Strategy::zero2;
  options.shard.offload = GENERATE(Offload::none, Offload::params);
  options.train.accumulation = 2;
  const BadStepOutcome plain = train_around_bad_step(options, 2, "h.1", false);
  CHECK_FALSE(plain.finite);
  CHECK(plain.skipped);
  CHECK(plain.skipped_steps == 1);
  for (const double loss : plain.losses) CHECK(std::isfinite(loss));
  const BadStepOutcome located = train_around_bad_step(options, 2, "h.1", true);
  CHECK(located.losses == plain.losses);
  CHECK(located.skipped_steps == 1);
}

TEST_CASE("a bad number that does not come again changes nothing when its step is played once more") {
  Options options = base_options();
  const auto [strategy, offload] = GENERATE(table<Strategy, Offload>(
      {{Strategy::ddp, Offload::none}, {Strategy::zero3, Offload::none}, {Strategy::zero2, Offload::params}}));
  options.shard.strategy = strategy, options.shard.offload = offload;
  options.run.trace = {3, 3};
  const BadStepOutcome plain = train_around_bad_step(options, 2, "h.1", false, true);
  REQUIRE(plain.skipped);
  const BadStepOutcome located = train_around_bad_step(options, 2, "h.1", true, true);
  CHECK(located.where == "");
  CHECK(located.losses == plain.losses);
  CHECK(located.skipped_steps == 1);
  CHECK(located.spans == plain.spans);
}

TEST_CASE("a bad number is located by rank, samples, and the operation that makes it") {
  const auto [strategy, world] =
      GENERATE(table<Strategy, std::int64_t>({{Strategy::ddp, 1}, {Strategy::zero3, 3}, {Strategy::zero1, 2}}));
  Options options = base_options();
  options.shard.strategy = strategy;
  if (strategy == Strategy::zero3) options.shard.offload = GENERATE(Offload::none, Offload::params);
  options.run.queues = GENERATE(QueueMode::serial, QueueMode::parallel);
  INFO(name_of(strategy));
  // The third step of two samples a rank. A gather brings the weight where ranks share it, else forward meets it.
  const std::string where = train_around_bad_step(options, world, "h.1", true).where;
  CHECK_THAT(where, Contains("micro-step 0 (samples ") && Contains("h.1") && Contains("makes nan"));
  // The first rank of those that meet it in the same operation; with state on the host, the last one loads it alone.
  const std::int64_t rank = options.shard.offload == Offload::none ? 0 : world - 1;
  CHECK_THAT(where, StartsWith(fmt::format("rank {}, ", rank)));
  CHECK_THAT(where, Contains(fmt::format("(samples {} to ", 4 * world + 2 * rank)));
  const std::string last = train_around_bad_step(options, world, "ln_f", true).where;
  CHECK_THAT(last, Contains("makes nan") && !Contains("h.1"));
}

TEST_CASE("a bad number is located in codes of fp8, too") {
  Options options = base_options();
  options.shard.strategy = Strategy::zero3;
  options.precision.linear = LinearPrecision::fp8, options.precision.fp8_smallest = 0;
  const std::string where = train_around_bad_step(options, 2, "h.1", true).where;
  CHECK_THAT(where, Contains("gather h.1 makes nan in full h.1, element "));
}
