#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>

#include "tessera/config/validate.hpp"
#include "tessera/optimizer/optimizer.hpp"

using namespace tessera;

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
