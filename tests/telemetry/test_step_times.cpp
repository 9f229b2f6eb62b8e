#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <thread>

#include "tessera/telemetry/step_times.hpp"

using namespace tessera;

TEST_CASE("step times add up over threads and start again after take") {
  StepTimes times;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; ++i) times.add(TimeCategory::backward, 3);
      times.add(TimeCategory::exposed_gather, 1'000'000'000);
    });
  }
  for (auto& thread : threads) thread.join();
  times.add(TimeCategory::exposed_other, 500'000'000);
  const StepTimeTotals totals = times.take();
  CHECK(totals.seconds(TimeCategory::backward) == Approx(120000e-9));
  CHECK(totals.exposed_seconds() == Approx(4.0));
  CHECK(totals.seconds(TimeCategory::exposed_other) == Approx(0.5));
  CHECK(times.take().nanoseconds == StepTimeTotals{}.nanoseconds);
}

TEST_CASE("operations' own durations are kept apart from the compute queue's time, and start again after take") {
  StepTimes times;
  times.add(TimeCategory::exposed_gather, 5);
  times.add_operation(TimeCategory::exposed_gather, 40);
  times.add_operation(TimeCategory::exposed_gather, 2);
  const StepTimeTotals totals = times.take();
  const auto gather = static_cast<std::size_t>(TimeCategory::exposed_gather);
  CHECK((totals.nanoseconds[gather] == 5 && totals.operations[gather] == 42));
  CHECK(times.take().operations == StepTimeTotals{}.operations);
}

TEST_CASE("time categories have names of their own") {
  const auto names = time_category_names();
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == kTimeCategories);
  CHECK(names.front() == "data");
  for (const auto& name : names) CHECK(name != "?");
}

TEST_CASE("a step of which a part was not timed has no times, the next one has") {
  StepTimes times;
  times.add(TimeCategory::forward, 7);
  times.leave_out();
  const StepTimeTotals unknown = times.take();
  CHECK_FALSE(unknown.measured);
  CHECK(std::isnan(unknown.seconds(TimeCategory::forward)));
  CHECK(std::isnan(unknown.exposed_seconds()));
  times.add(TimeCategory::forward, 7);
  CHECK(times.take().seconds(TimeCategory::forward) == Approx(7e-9));
}

TEST_CASE("only communication counts as exposed") {
  StepTimes times;
  for (std::size_t i = 0; i < kTimeCategories; ++i) times.add(static_cast<TimeCategory>(i), std::int64_t{1} << i);
  const StepTimeTotals totals = times.take();
  double exposed = 0;
  for (std::size_t i = 0; i < kTimeCategories; ++i) {
    const std::string name = time_category_names()[i];
    const double seconds = totals.seconds(static_cast<TimeCategory>(i));
    CHECK(seconds == Approx(static_cast<double>(std::int64_t{1} << i) * 1e-9));
    if (name.starts_with("exposed_") && name != "exposed_other") exposed += seconds;
  }
  CHECK(totals.exposed_seconds() == Approx(exposed));
}
