#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "tessera/training/checkpoint_clock.hpp"

using namespace tessera;

namespace {

/// The share of time that is lost, in the model of the paper (equation 20, without the constant factor): failures come
/// at random, and each repeats what was computed since the last checkpoint.
double lost(double interval, double cost, double mtbf) {
  return mtbf * (std::exp((interval + cost) / mtbf) - 1) / interval - 1;
}

CheckpointClock automatic(double mtbf, std::int64_t nodes, double estimate) {
  CheckpointOptions options;
  options.every = kAutomaticCount, options.mtbf = mtbf;
  return {options, nodes, estimate};
}

}  // namespace

TEST_CASE("no other interval loses noticeably less time") {
  std::mt19937 draw(11);
  std::uniform_real_distribution<double> exponent(-1, 3), ratio(0.0001, 0.5);
  for (int i = 0; i < 200; ++i) {
    const double cost = std::pow(10, exponent(draw)), mtbf = cost / ratio(draw);
    const double best = best_checkpoint_interval(cost, mtbf);
    INFO("cost " << cost << ", failures every " << mtbf << ": " << best);
    for (const double factor : {0.25, 0.5, 0.8, 0.95, 1.05, 1.25, 2.0, 4.0})
      REQUIRE(lost(best, cost, mtbf) <= 1.001 * lost(factor * best, cost, mtbf));
  }
  CHECK(best_checkpoint_interval(3, 1) == 1);
}

TEST_CASE("auto takes the estimate, then what was measured, and no less than a checkpoint takes") {
  CheckpointClock clock = automatic(0, 10, 50);
  CHECK(clock.interval() == best_checkpoint_interval(50, 3 * 24 * 3600));
  CHECK_THAT(clock.news(), Catch::Contains("is assumed to take 50 s, and a failure comes every 3 d"));
  CHECK(clock.news().empty());
  clock.measured(49, 49);
  CHECK(clock.news().empty());
  clock.measured(2, 2);
  CHECK(clock.interval() == best_checkpoint_interval(2, 3 * 24 * 3600));
  CHECK_THAT(clock.news(), Catch::Contains("stops the run for 2 s"));
  clock.measured(0.001, 300);
  CHECK(clock.interval() == 300);
}

TEST_CASE("checkpoint.every_minutes bounds the interval of auto, and works without it") {
  CheckpointOptions options;
  CHECK(CheckpointClock(options, 1, 1).interval() == std::numeric_limits<double>::infinity());
  CHECK_FALSE(CheckpointClock(options, 1, 1).is_due());
  options.every_minutes = 2;
  CHECK(CheckpointClock(options, 1, 1).interval() == 120);
  CHECK(CheckpointClock(options, 1, 1).news().empty());
  options.every = kAutomaticCount;
  CHECK(CheckpointClock(options, 1, 1000).interval() == 120);
  options.every_minutes = 1e9;
  CHECK(CheckpointClock(options, 1, 1000).interval() < 1e6);
  CHECK(automatic(1e-9, 1, 1).is_due());
}
