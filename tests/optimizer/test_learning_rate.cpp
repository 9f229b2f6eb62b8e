#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>

#include "tessera/config/validate.hpp"
#include "tessera/optimizer/optimizer.hpp"

using namespace tessera;

namespace {

/// The rate of a step in a run of one batch.
double rate(const OptimOptions& options, std::int64_t step, std::int64_t steps) {
  return learning_rate(options, RunLength(steps, 0, 1, {}).progress(step));
}

}  // namespace

TEST_CASE("learning rate schedules") {
  OptimOptions o;
  o.lr = 1.0;
  o.min_lr = 0.1;
  o.warmup_steps = 10;
  o.schedule = LearningRateSchedule::cosine;
  REQUIRE(rate(o, 1, 110) == Approx(0.1));
  REQUIRE(rate(o, 10, 110) == Approx(1.0));
  REQUIRE(rate(o, 11, 110) == Approx(1.0));
  REQUIRE(rate(o, 61, 110) == Approx(0.55));
  // The last step is one above min_lr, as nanoGPT, llm.c and Transformers have it.
  const double last = 0.1 + 0.45 * (1.0 + std::cos(std::numbers::pi * 0.99));
  REQUIRE(rate(o, 110, 110) == Approx(last));
  o.schedule = LearningRateSchedule::linear;
  REQUIRE(rate(o, 61, 110) == Approx(0.55));
  REQUIRE(rate(o, 110, 110) == Approx(0.109));
  o.schedule = LearningRateSchedule::wsd;
  o.decay_fraction = 0.2;
  REQUIRE(rate(o, 88, 110) == Approx(1.0));
  REQUIRE(rate(o, 89, 110) == Approx(1.0));
  REQUIRE(rate(o, 100, 110) == Approx(0.55));
  REQUIRE(rate(o, 110, 110) == Approx(0.1 + 0.9 / 22));
  o.decay_fraction = 0.0;  // never falls
  REQUIRE(rate(o, 110, 110) == Approx(1.0));
  o.decay_fraction = 0.29;  // 28.999999999999996 of 100 in doubles
  REQUIRE(decay_steps(o, 100) == 29);
  o.decay_fraction = 0.58;
  REQUIRE(decay_steps(o, 50) == 29);
  o.decay_fraction = 1.0;
  REQUIRE(decay_steps(o, 110) == 110);
  o.schedule = LearningRateSchedule::constant;
  REQUIRE(rate(o, 110, 110) == Approx(1.0));
  // A run of one step with the defaults trains.
  REQUIRE(rate(OptimOptions{}, 1, 1) == OptimOptions{}.lr);
}
