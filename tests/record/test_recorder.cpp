#include <nlohmann/json.hpp>
#include <thread>

#include "file_support.hpp"
#include "plan_run.hpp"
#include "printed_to.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/record/recorder.hpp"
#include "training/session_case.hpp"

using namespace tessera;
using namespace tessera::testing;
using namespace tessera::test;
using Catch::Contains;

namespace {

/// A run of one rank that is recorded without training.
struct RecorderCase {
  RecorderCase() { options.metrics.every = 5; }
  /// Records steps `first` to `last` of 12 of a run that has begun.
  void record(RunRecorder& recorder, std::int64_t first, std::int64_t last) const {
    for (std::int64_t step = first; step <= last; ++step) {
      StepReport report;
      report.step = step;
      report.result.loss = 10.0 / static_cast<double>(step);
      report.seconds = 0.5;
      recorder.record_step(report, 100);
    }
  }
  void begin(RunRecorder& recorder, std::int64_t steps_done = 0) const {
    recorder.begin(planned, steps_done, 12, RunAccount{});
  }
  std::vector<std::int64_t> steps_in(const char* file) const {
    return hdf5_read<std::int64_t>(Hdf5File::open(folder / "run" / file).id(), "steps/step");
  }
  nlohmann::json status() const { return nlohmann::json::parse(read_file(folder / "run/status.json")); }
  std::vector<nlohmann::json> log() const {
    std::vector<nlohmann::json> lines;
    std::istringstream text(read_file(folder / "run/log.jsonl"));
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  TemporaryFolder folder;
  Options options = base_options();
  PlannedRun planned = plan_run(options, small_gpt2(), 1, 1);
};

}  // namespace

TEST_CASE("a run leaves its options, its rows, a line of the log every few steps, and how it ended") {
  const RecorderCase c;
  printed_to(1, [&] {
    RunRecorder recorder(c.options, c.folder / "run", 1);
    // Another thread writes it.
    while (!std::filesystem::exists(c.folder / "run/status.json")) std::this_thread::yield();
    CHECK(c.status().at("state") == "running");
    c.begin(recorder);
    c.record(recorder, 1, 12);
    recorder.record_evaluation(12, {{.set = "", .loss = 2.25}});
    recorder.finish(RunState::finished, ExitCode::finished, "all steps done");
  });
  CHECK(read_file(c.folder / "run/config.ini").find("lr = 0.01") != std::string::npos);
  const nlohmann::json status = c.status();
  CHECK((status.at("state") == "finished" && status.at("step") == 12 && status.at("steps") == 12));
  CHECK((status.at("code") == 0 && status.at("message") == "all steps done"));
  std::vector<std::int64_t> steps;
  for (const nlohmann::json& line : c.log()) steps.push_back(line.at("step"));
  CHECK(steps == std::vector<std::int64_t>{1, 5, 10, 12, 12});  // the first, every fifth, the last; the evaluation
  CHECK(c.log()[1].at("loss") == 2.0);
  CHECK(c.log()[1].at("tokens_per_second") == 200);
  CHECK(c.log().back().at("validation_loss") == 2.25);
  CHECK(c.log().back().at("validation_perplexity") == Approx(std::exp(2.25)));
  CHECK((status.at("validation_loss") == 2.25 && status.at("evaluated_step") == 12));
  CHECK_FALSE(
      (status.contains("validation_losses") || status.contains("checkpoint") || status.contains("by_stop_file")));
  CHECK(c.steps_in("metrics.h5").size() == 12);
  CHECK_FALSE(std::filesystem::exists(c.folder / "run/owner.json"));
}

TEST_CASE("a folder that a run has used is refused, unless the run goes on in it") {
  RecorderCase c;
  printed_to(1, [&] {
    RunRecorder recorder(c.options, c.folder / "run", 1);
    CHECK_THROWS_AS(RunRecorder(c.options, c.folder / "run", 1), UsageError);
    c.begin(recorder);
    c.record(recorder, 1, 6);
    recorder.record_checkpoint({.step = 6});
    recorder.finish(RunState::stopped, ExitCode::stopped_early, "asked to", true);
  });
  CHECK((c.status().at("state") == "stopped" && c.status().at("code") == 75));
  CHECK((c.status().at("checkpoint") == 6 && c.status().at("by_stop_file") == true));
  CHECK_THROWS_AS(RunRecorder(c.options, c.folder / "run", 1), UsageError);
  CHECK(c.status().at("message") == "asked to");
  c.options.checkpoint.resume = "auto";
  printed_to(1, [&] {
    RunRecorder recorder(c.options, c.folder / "run", 1);
    c.begin(recorder, 4);  // from a checkpoint of step 4: the rows after it are of a branch that is left
    c.record(recorder, 5, 7);
    recorder.finish(RunState::finished, ExitCode::finished, "");
  });
  CHECK(c.steps_in("metrics.h5") == std::vector<std::int64_t>{1, 2, 3, 4});
  CHECK(c.steps_in("metrics.1.h5") == std::vector<std::int64_t>{5, 6, 7});
}

TEST_CASE("a log that cannot be written is told of once, and ends no run") {
  RecorderCase c;
  c.options.metrics.every = 1;
  std::string warnings;
  printed_to(1, [&] {
    warnings = printed_to(2, [&] {
      RunRecorder recorder(c.options, c.folder / "run", 1);
      std::filesystem::remove(c.folder / "run/log.jsonl");  // which the lock has made
      std::filesystem::create_directories(c.folder / "run/log.jsonl");
      c.begin(recorder);
      c.record(recorder, 1, 3);
      std::filesystem::remove(c.folder / "run/log.jsonl");
      c.record(recorder, 4, 5);
      recorder.finish(RunState::finished, ExitCode::finished, "");
    });
  });
  INFO(warnings);
  CHECK(std::ranges::count(warnings, '\n') == 2);
  CHECK_THAT(warnings, Contains("log.jsonl") && Contains(": the run goes on\n") && Contains("no longer so: "));
  CHECK(c.log().size() == 2);
  CHECK(c.steps_in("metrics.h5").size() == 5);
  CHECK(c.status().at("state") == "finished");
}
