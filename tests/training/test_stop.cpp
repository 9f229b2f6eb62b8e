#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "file_support.hpp"
#include "temporary_folder.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/training/stop.hpp"

using namespace tessera;
using test::write_file;
using testing::TemporaryFolder;

// At 100 MB/s, half as long again (as for a step), and half a second for the end. LastTimes are those of a step, of
// evaluations and of a checkpoint, and whether one is being written.
TEST_CASE("time is kept for a checkpoint that none was written before") {
  const StopMargin margin(10'000'000'000, 3600);
  REQUIRE(margin.seconds({}) == Approx(150.5));
  REQUIRE(margin.seconds({5, 0, {}, false}) == Approx(158.0));
  REQUIRE(margin.seconds({5, 30, {}, false}) == Approx(188.0));
  REQUIRE(margin.seconds({0, 0, {}, true}) == Approx(300.5));
}

TEST_CASE("what was measured counts, whatever was estimated") {
  const StopMargin margin(10'000'000'000, 3600);
  REQUIRE(margin.seconds({0, 0, 10.0, false}) == Approx(15.5));
  REQUIRE(margin.seconds({0, 0, 10.0, true}) == Approx(30.5));
  REQUIRE(margin.seconds({0, 0, 2000.0, false}) == Approx(3000.5));
}

TEST_CASE("an estimate leaves half of the time for steps") {
  REQUIRE(StopMargin(10'000'000'000, 200).seconds({}) == Approx(100.5));
  REQUIRE(StopMargin(10'000'000'000, 200).seconds({0, 0, {}, true}) == Approx(100.5));
  REQUIRE(StopMargin(10'000'000'000, -5).seconds({}) == Approx(0.5));
}

namespace {

LastTimes rest_of(double seconds) { return {seconds, 0, {}, false}; }

/// The conditions of rank 0 in a run that began so many seconds before its run.walltime of one second.
StopConditions conditions_of(const StopSignals& signals, double seconds_left) {
  Options options;
  options.run.walltime = 1;
  const auto start =
      std::chrono::steady_clock::now() - std::chrono::milliseconds(std::llround(1000 * (1 - seconds_left)));
  return {options, signals, start, "no such folder", true, 0, 1};
}

}  // namespace

TEST_CASE("Slurm is asked about each end once, and its answer counts") {
  const double now = unix_time();
  std::optional<double> answer;
  int asked = 0;
  ::setenv("SLURM_JOB_END_TIME", fmt::format("{}", now + 100).c_str(), 1);
  const auto deadline_in = [&](double walltime) {
    return Deadline(walltime, std::chrono::steady_clock::now(), [&] {
      ++asked;
      return answer;
    });
  };
  Deadline deadline = deadline_in(1e6), earlier = deadline_in(50);
  ::unsetenv("SLURM_JOB_END_TIME");
  CHECK_FALSE(earlier.ask_again());
  CHECK(asked == 0);
  for (const double later : {200.0, 3000.0}) {
    answer = now + later;
    CHECK(deadline.ask_again());
    CHECK(deadline.seconds_left() == Approx(later).margin(60));
  }
  answer = std::nullopt;
  CHECK_FALSE(deadline.ask_again());
  CHECK_FALSE(deadline.ask_again());
  CHECK(asked == 3);
  CHECK(deadline.seconds_left() == Approx(3000).margin(60));
}

TEST_CASE("before a micro-step the clock counts, but not in the first step of a start") {
  const StopSignals signals;
  CHECK(conditions_of(signals, -1).wish({}, false).requests == StepRequests::kStop);
  CHECK(conditions_of(signals, -1).wish({}, true).requests == 0);
  CHECK(conditions_of(signals, -1).requests({}) == StepRequests::kStop);
  CHECK(conditions_of(signals, 1000).wish(rest_of(100), false).requests == 0);
  CHECK(conditions_of(signals, 1000).wish(rest_of(1000), false).requests == StepRequests::kStop);
}

TEST_CASE("a rest is long from ten seconds on, whether or not there is a wish") {
  const StopSignals signals;
  CHECK(conditions_of(signals, 1000).wish(rest_of(9.9), false).long_rest == 0);
  CHECK(conditions_of(signals, 1000).wish(rest_of(10.1), false).long_rest == 1);
}

TEST_CASE("a stop removes RUN/stop, and rank 0 says whether it was there") {
  const StopSignals signals;
  const TemporaryFolder folder;
  const Options options;
  for (const bool is_rank_0 : {true, false}) {
    StopConditions conditions(options, signals, std::chrono::steady_clock::now(), folder.path(), is_rank_0, 0, 1);
    CHECK_FALSE(conditions.stopped());
    write_file(folder / "stop", "");
    CHECK(conditions.stopped() == is_rank_0);
    CHECK(std::filesystem::exists(folder / "stop") != is_rank_0);
  }
}
