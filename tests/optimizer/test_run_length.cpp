// A run's length and its learning rate, where the global batch changes on the way.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tessera/base/math.hpp"
#include "tessera/config/enums.hpp"
#include "tessera/optimizer/optimizer.hpp"

using namespace tessera;

namespace {

std::int64_t draw(std::mt19937& random, std::int64_t first, std::int64_t last) {
  return std::uniform_int_distribution<std::int64_t>(first, last)(random);
}

OptimOptions drawn_options(std::mt19937& random, std::int64_t steps) {
  OptimOptions options;
  options.lr = 1.0, options.min_lr = 0.1;
  options.schedule = static_cast<LearningRateSchedule>(draw(random, 0, 3));
  options.decay_fraction = 0.3;
  options.warmup_steps = draw(random, 0, steps / 2);
  return options;
}

}  // namespace

TEST_CASE("Where the batch stays, a run counted in samples has the steps and the rates of one counted in steps") {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const std::int64_t batch = draw(random, 1, 100), samples = draw(random, 1, 5000), steps = ceil_div(samples, batch);
    const std::int64_t done = draw(random, 0, steps - 1);
    const RunLength by_samples(7, samples, batch, {done, done * batch, batch}), by_steps(steps, 0, batch, {});
    CHECK(by_samples.steps() == steps);
    CHECK(by_samples.schedule_steps() == steps);
    CHECK(by_samples.samples() == steps * batch);
    const OptimOptions options = drawn_options(random, steps);
    for (std::int64_t step = done + 1; step <= steps; ++step)
      REQUIRE(learning_rate(options, by_samples.progress(step)) == learning_rate(options, by_steps.progress(step)));
  }
}

TEST_CASE("A run that changes its batch reads its samples once, and its rate follows the samples that were read") {
  std::mt19937 random(2);
  for (int i = 0; i < 200; ++i) {
    const std::int64_t first = draw(random, 1, 30), samples = draw(random, 2000, 4000);
    RunPosition at{0, 0, first};
    std::int64_t batch = first;
    const RunLength whole(1, samples, first, {});
    const OptimOptions options = drawn_options(random, whole.steps());
    // The rate falls by at most so much in a step of the first batch: half of pi is the cosine's steepest slope.
    const double most = 1.6 / static_cast<double>(whole.steps() - options.warmup_steps) /
                        (options.schedule == LearningRateSchedule::wsd ? 0.3 : 1.0);
    double before = -1;
    for (int starts = 0; starts < 4; ++starts) {
      const RunLength length(1, samples, batch, at);
      const std::int64_t left = samples - at.next_sample;
      CHECK(length.samples() - samples < batch);
      CHECK(length.samples() >= samples);
      CHECK(length.schedule_steps() == whole.steps());
      const std::int64_t stop = at.step + std::max<std::int64_t>(1, left / batch / 3);
      for (; at.step < stop; ++at.step, at.next_sample += batch) {
        const double rate = learning_rate(options, length.progress(at.step + 1));
        const double share = static_cast<double>(at.next_sample + batch) / static_cast<double>(first);
        if (share <= static_cast<double>(options.warmup_steps)) {
          CHECK(rate == Approx(share / static_cast<double>(options.warmup_steps)));
        } else if (before >= 0 && rate < before) {
          const double steps = static_cast<double>(std::max(batch, first) + 30) / static_cast<double>(first);
          CHECK(before - rate <= most * steps);
        }
        CHECK(rate <= options.lr);
        before = rate;
      }
      batch = draw(random, 1, 30);
    }
  }
}

TEST_CASE("A run counted in steps keeps them whatever its batch, and ends where nothing is left to read") {
  const RunLength steps(100, 0, 2, {20, 160, 8});
  CHECK(steps.steps() == 100);
  CHECK(steps.samples() == 320);
  CHECK(steps.progress(21).before == 20);
  CHECK(RunLength(1, 224, 2, {20, 160, 8}).steps() == 52);
  CHECK(RunLength(1, 100, 8, {20, 160, 8}).steps() == 20);
}

TEST_CASE("A position counts its tokens in samples of another length") {
  const RunPosition from{15, 60, 4, 32};
  CHECK(in_samples_of(32, from) == from);
  CHECK(in_samples_of(64, from) == RunPosition{15, 30, 2, 64});
  CHECK(in_samples_of(16, from) == RunPosition{15, 120, 8, 16});
  CHECK(in_samples_of(1000, from) == RunPosition{15, 1, 1, 1000});  // a batch is never empty
  CHECK(in_samples_of(64, {}) == RunPosition{0, 0, 0, 64});
}
