// Predicted times beside measured ones, and the sentences about those that differ.

#include <catch2/catch.hpp>
#include <cmath>

#include "record/predicted_run.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;

namespace {

std::int64_t nanoseconds(double seconds) { return std::llround(1e9 * seconds); }

/// A step that takes `factor` times what was predicted, in every category.
TimedStep step_of(const Prediction& prediction, double factor = 1) {
  TimedStep step{factor * prediction.step_seconds, {}};
  for (std::size_t i = 0; i < kTimeCategories; ++i) {
    step.times.nanoseconds[i] = nanoseconds(factor * prediction.timeline.time[i]);
    step.times.operations[i] = nanoseconds(factor * prediction.timeline.operations[i]);
  }
  return step;
}

constexpr auto kGather = static_cast<std::size_t>(TimeCategory::exposed_gather);
constexpr auto kBackward = static_cast<std::size_t>(TimeCategory::backward);

}  // namespace

TEST_CASE("what is within the stated uncertainty is no finding") {
  const RunPrediction prediction = PredictedRun().prediction();
  const TimedStep step = step_of(prediction.step, 1.05);  // prices may be off by a tenth
  const StepMedians medians = medians_of({step.seconds}, {step});
  CHECK(differences(prediction.step, medians).empty());
  CHECK_THAT(comparison(prediction, medians), Contains("finding    none"));
}

TEST_CASE("a price that is twice the measured time gives a finding, and it alone") {
  const Prediction fast = PredictedRun({1e11, 1e10, 1e9}).prediction().step,
                   slow = PredictedRun({1e11, 1e10, 5e8}).prediction().step;
  const TimedStep step = step_of(fast);
  const std::vector<std::string> found = differences(slow, medians_of({step.seconds}, {step}));
  REQUIRE(found.size() == 3);
  CHECK_THAT(found[0], Contains("a step took") && Contains("times its prediction"));
  CHECK_THAT(found[1], Contains("all-gather took 0.5"));
  CHECK_THAT(found[2], Contains("reduce-scatter took 0.5"));
}

TEST_CASE("operations that kept their price but were hidden less are told apart from slow ones") {
  const Prediction prediction = PredictedRun().prediction().step;
  TimedStep step = step_of(prediction);
  step.times.nanoseconds[kGather] *= 3;
  const auto found = [&] { return differences(prediction, medians_of({prediction.step_seconds}, {step})); };
  REQUIRE(found().size() == 1);
  CHECK_THAT(found()[0], Contains("compute waited for all-gather 3.00 times as long as predicted"));
  step.times.operations[kGather] *= 3;
  REQUIRE(found().size() == 1);
  CHECK_THAT(found()[0], Contains("all-gather took 3.00 times its price"));
}

TEST_CASE("the medians are of steps after the warm-up, and of operations only where they were timed") {
  const Prediction prediction = PredictedRun().prediction().step;
  MeasuredSteps steps;
  CHECK(steps.medians().steps == 0);
  for (int i = 0; i < 20; ++i) {
    TimedStep step = step_of(prediction, i < 4 ? 9 : i == 10 ? 5 : 2);  // a fifth is warm-up
    step.times.measured = i % 2 == 0;
    steps.add(step.seconds, step.times);
  }
  const StepMedians medians = steps.medians();
  CHECK((medians.steps == 16 && medians.timed == 8));
  CHECK(medians.seconds == Approx(2 * prediction.step_seconds));
  CHECK(medians.time[kBackward] == Approx(2 * prediction.timeline.time[kBackward]));
  CHECK(medians.host == Approx(2 * prediction.timeline.host).margin(1e-8));
  CHECK(std::isnan(medians_of({1.0}, {}).host));
  for (int i = 0; i < 1000; ++i) steps.add(1, {});  // of long runs the last
  CHECK((steps.medians().steps == 256 && steps.medians().seconds == 1));
}
