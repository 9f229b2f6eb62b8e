#include <catch2/catch.hpp>
#include <csignal>
#include <limits>
#include <vector>

#include "tessera/training/stop_notice.hpp"

using namespace tessera;
using std::chrono::seconds;
using std::chrono::steady_clock;

namespace {

/// Step 7 of a start from step 5 on, of 10 micro-steps, that began so long ago.
StepProgress progress_after(int seconds_ago, std::int64_t begun) {
  return {7, 5, begun, 10, 0, 20.0, steady_clock::now() - seconds(seconds_ago)};
}

}  // namespace

TEST_CASE("a step's rest is estimated by its own micro-steps and by the step before") {
  CHECK(progress_after(0, 4).rest() == Approx(12.0));
  CHECK(progress_after(20, 4).rest() == Approx(30.0).margin(0.5));  // slower than the step before
  CHECK(progress_after(1, 0).rest() == Approx(20.0));
  StepProgress first = progress_after(6, 3);
  first.last_seconds = 0;
  CHECK(first.rest() == Approx(14.0).margin(3));
  first.begun = 0;
  CHECK(first.rest() == std::numeric_limits<double>::infinity());
  first.begun = 3, first.ahead = 2;  // one of them is known to be finished
  CHECK(first.rest() == Approx(54.0).margin(10));
}

TEST_CASE("a stop is described by what becomes of the step") {
  CHECK(describe_stop({}) == "stopping before the first step, so that nothing is written");
  CHECK(describe_stop(progress_after(0, 6)) == "stopping after step 7 with a checkpoint");
  CHECK(describe_stop(progress_after(0, 2)) == "giving up step 7 and stopping after step 6 with a checkpoint");
  CHECK(describe_stop(progress_after(60, 8)) == "stopping after step 7 with a checkpoint");  // too late to give it up
  StepProgress first = progress_after(60, 2);
  first.first_step = 7, first.last_seconds = 0;
  CHECK(describe_stop(first) == "stopping within step 7, so that nothing is written");
  first.begun = 0;
  CHECK(describe_stop(first) == "stopping within step 7, or after it with a checkpoint if it is short");
  first.micro_steps = 1;
  CHECK(describe_stop(first) == "stopping after step 7 with a checkpoint");
}

TEST_CASE("a reason is told once") {
  const StopSignals signals;
  std::vector<std::string> said;
  {
    StopNotice notice(signals, [&](const std::string& line) { said.push_back(line); });
    notice.set_progress(progress_after(0, 9));
    notice.announce("run.walltime (3.0 s left)");
    notice.announce("SIGTERM");
  }
  CHECK(said == std::vector<std::string>{"run.walltime (3.0 s left): stopping after step 7 with a checkpoint"});
}
