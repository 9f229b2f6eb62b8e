// Wishes to stop within a step, and how all ranks answer them, on cores.

#include <catch2/catch.hpp>

#include "tessera/training/stop.hpp"
#include "training/give_up_case.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr std::int64_t kStop = StepRequests::kStop;

Options options_of(std::int64_t accumulation, Strategy strategy = Strategy::zero3) {
  Options options = base_options();
  options.train.accumulation = accumulation;
  options.train.steps = 3;
  options.shard.strategy = strategy;
  options.shard.group_size = rules_of(strategy).is_hybrid() ? 2 : 0;
  return options;
}

}  // namespace

TEST_CASE("a wish that comes during a step is in the sum of that step") {
  for (const std::int64_t accumulation : {1, 3}) {
    const auto late = [=](std::int64_t rank, std::int64_t step, std::int64_t begun) {
      return StepWish{rank == 1 && step == 2 && begun == accumulation ? kStop : 0, 0};
    };
    CHECK(train_with_wishes(options_of(accumulation), small_gpt2(), 2, late).requests ==
          std::vector<std::int64_t>{0, kStop, 0});
  }
}

TEST_CASE("a step is given up where one rank wishes to stop and another has a long rest before it") {
  Options two = options_of(4);
  two.train.steps = 2;
  const auto none = [](std::int64_t, std::int64_t, std::int64_t) { return StepWish{}; };
  for (const Strategy strategy : {Strategy::zero3, Strategy::ddp, Strategy::hsdp}) {
    const std::int64_t world = strategy == Strategy::hsdp ? 4 : 2;
    Options options = options_of(4, strategy);
    Options before = options;
    before.train.steps = 2;
    const auto expected = train_with_wishes(before, small_gpt2(), world, none);
    for (const std::int64_t from : {0, 1, 2}) {
      const auto outcome = train_with_wishes(
          options, small_gpt2(), world, [=](std::int64_t rank, std::int64_t step, std::int64_t begun) {
            return StepWish{rank == world - 1 && step == 3 && begun >= from ? kStop : 0, rank == 0 ? 1 : 0};
          });
      CAPTURE(strategy, from);
      CHECK(outcome.given_up);
      CHECK(outcome.steps == 2);
      CHECK(outcome.asked == from);  // the wish before that micro-step was known when it ended
      CHECK(outcome.weights == expected.weights);
    }
  }
}

TEST_CASE("a step whose rest is short on all ranks is finished") {
  const auto outcome =
      train_with_wishes(options_of(4), small_gpt2(), 2, [](std::int64_t, std::int64_t step, std::int64_t) {
        return StepWish{step == 2 ? kStop : 0, 0};
      });
  CHECK_FALSE(outcome.given_up);
  CHECK(outcome.requests == std::vector<std::int64_t>{0, 2 * kStop, 0});
}

TEST_CASE("a long rest alone gives nothing up, nor does a wish on the way to the last sum") {
  const auto outcome =
      train_with_wishes(options_of(3), small_gpt2(), 2, [](std::int64_t, std::int64_t step, std::int64_t begun) {
        return StepWish{step == 2 && begun == 3 ? kStop : 0, 1};
      });
  CHECK_FALSE(outcome.given_up);
  CHECK(outcome.steps == 3);
}

TEST_CASE("one rank alone gives a step up too") {
  const auto outcome =
      train_with_wishes(options_of(4), small_gpt2(), 1, [](std::int64_t, std::int64_t step, std::int64_t begun) {
        return StepWish{step == 1 && begun == 1 ? kStop : 0, 1};
      });
  CHECK(outcome.given_up);
  CHECK(outcome.steps == 0);
}
