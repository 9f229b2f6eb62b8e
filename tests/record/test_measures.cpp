// Every row of the table of measures comes to each place that it names.
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "file_support.hpp"
#include "plan_run.hpp"
#include "printed_to.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/record/recorder.hpp"
#include "training/session_case.hpp"

using namespace tessera;
using namespace tessera::testing;
using namespace tessera::test;

namespace {

/// The values of the test's rows in metrics.h5, as numbers because the table under test has also written the file.
constexpr const char* kExpected = R"({
"steps": {"step": 1, "timed": 1, "skipped": 1, "loss": 3.5, "grad_norm": 1.25, "lr": 0.125, "seconds": 0.5,
          "tokens_per_second": 200, "time/recording": 0, "time/data": 0.001, "time/backward": 0.004},
"comm": {"all_reduce/calls": 3, "all_reduce/bytes": 25, "all_reduce/seconds": 1},
"eval": {"step": 2, "loss": 2.5, "near/step": 2, "near/loss": 2.5, "far/step": 2, "far/loss": 2.25},
"checkpoints": {"step": 3, "bytes": 1000, "blocked_seconds": 1, "waited_seconds": 0.25, "background_seconds": 2},
"device": {"step": 4, "memory_used": 600, "utilization": 0.5, "power": 70, "energy": 80},
"ranks": {"report": 4, "steps": 3, "timed_steps": 2, "straggler": 0, "behind_seconds": 0.5, "memory/peak": 13,
          "memory/process/measured": 11, "memory/average": 12, "time/backward": 1, "comm/exchange/calls": 5,
          "comm/exchange/bytes": 45, "comm/exchange/seconds": 2, "device/power": 70},
"overlap": {"step": 4, "straggler": 1, "behind_seconds": 0.75, "gather/min": 21, "gather/median": 22, "gather/max": 23},
"layers": {"step": 4, "grad_norm": 1.5},
"provenance": {"seconds_to_first_step": 1.5, "cores": 8, "compute_threads": 6, "load_average_start": 0.75,
               "load_average_end": 0.5, "gpu_foreign_processes_start": 2, "gpu_foreign_processes_end": 3}})";

/// The datasets and attributes of a file by path, with their first value.
std::map<std::string, double> first_values(const Hdf5File& file) {
  std::map<std::string, double> found;
  const auto read = [&](auto&& self, const std::string& path) -> void {
    const Hdf5Handle<&H5Oclose> object(H5Oopen(file.id(), ("/" + path).c_str(), H5P_DEFAULT));
    if (H5Iget_type(object.id()) == H5I_GROUP) {
      for (const std::string& name : hdf5_list(object.id())) self(self, path + (path.empty() ? "" : "/") + name);
      return;
    }
    const Hdf5Type type(H5Dget_type(object.id()));
    if (H5Tget_class(type.id()) == H5T_STRING) return;
    double value = std::nan("");
    const Hdf5Space space(H5Dget_space(object.id()));
    std::vector<double> all(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.id())), value);
    if (!all.empty()) H5Dread(object.id(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data());
    found[path] = all.empty() ? value : all.front();
  };
  read(read, "");
  return found;
}

}  // namespace

TEST_CASE("every measure is in metrics.h5 and in log.jsonl where the table says so, with the value of its row") {
  const TemporaryFolder folder;
  Options options = base_options();
  options.metrics.every = 1;
  options.metrics.layer_norms = true;
  options.data.val_source = "near:a.txt,far:b.txt";
  const PlannedRun planned = plan_run(options, small_gpt2(), 1, 1);
  StepReport step{1, {}, 0.5, {}, {}};
  step.result = {.loss = 3.5, .grad_norm = 1.25, .skipped = true, .learning_rate = 0.125F};
  for (std::size_t i = 0; i < kTimeCategories; ++i) step.times.nanoseconds[i] = 1'000'000 * static_cast<int>(i + 1);
  for (std::size_t i = 0; i < step.communication.size(); ++i) {
    const auto n = static_cast<std::int64_t>(i);
    step.communication[i] = {n + 1, 10 * n + 5, 0.5 * static_cast<double>(n)};
  }
  const EvaluationReport evaluation{2, {{.set = "near", .loss = 2.5}, {.set = "far", .loss = 2.25}}};
  CheckpointReport checkpoint{3, 1000, 1, 0.25, 2};
  RankRow ranks{4, 3, 2, std::vector<RankValues>(1), {0, 0.5, 0.2}, {}};
  ranks.ranks[0].device = {0.5, 600, 70, 80, 0};
  ranks.ranks[0].communication = step.communication;
  ranks.ranks[0].process = 11;
  ranks.ranks[0].memory_peak = 13;
  ranks.ranks[0].memory_average = 12;
  for (std::size_t i = 0; i < kTimeCategories; ++i) ranks.ranks[0].times[i] = 0.25 * static_cast<double>(i + 1);
  ranks.overlap = {{4, {1, 0.75, 0}, {}}};
  for (std::size_t i = 0; i < kOverlapKinds; ++i) {
    const double tens = 10.0 * static_cast<double>(i);
    ranks.overlap[0].times.push_back({tens + 1, tens + 2, tens + 3});
  }
  ranks.layer_norms.assign(planned.schedule.layout.units.size(), 1.5);
  printed_to(1, [&] {
    RunRecorder recorder(options, folder / "run", 1);
    RunAccount account;
    account.has_monitor = true;
    account.cores = 8;
    account.compute_threads = 6;
    account.load = {0.75, 2};
    recorder.begin(planned, 0, 12, account);
    recorder.record_step(step, 100);
    recorder.record_evaluation(2, evaluation.sets);
    recorder.record_checkpoint(checkpoint);
    recorder.record_ranks(ranks);
    recorder.record_first_step(1.5);
    recorder.record_load_at_end({0.5, 3});
    recorder.finish(RunState::finished, ExitCode::finished, "");
  });

  const Hdf5File file = Hdf5File::open(folder / "run/metrics.h5");
  std::map<std::string, double> there = first_values(file);
  std::map<std::string, double> logged;
  std::istringstream lines(read_file(folder / "run/log.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json fields = nlohmann::json::parse(line);
    for (const auto& [key, value] : fields.items()) {
      if (value.is_number() || value.is_boolean())
        logged.emplace(key, value.is_boolean() ? value.get<bool>() : value.get<double>());
    }
  }
  step.tokens_per_second = 200;  // this and the next are added by the recorder
  step.unix_time = there.at("steps/unix_time");
  CHECK(step.unix_time > 1.7e9);
  std::set<std::string> paths;
  const auto check = [&](const auto& measures, const auto& row) {
    for (const auto& [measure, value] : measures) {
      INFO(measure.path << " " << measure.log);
      CHECK_FALSE(measure.help.empty());
      if (!measure.log.empty() && measure.log != "step")  // which every line has
        CHECK(logged.at(measure.log) == Approx(value(row)));
      if (measure.path.empty()) continue;
      CHECK(paths.insert(measure.path).second);
      CHECK(there.at(measure.path) == value(row));
    }
  };
  check(step_measures(), step);
  check(evaluation_measures({"near", "far"}), evaluation);
  check(checkpoint_measures(), checkpoint);
  check(report_measures(), ranks);
  check(rank_measures(), ranks.ranks[0]);
  check(device_measures("device/"), ranks.ranks[0].device);
  check(device_measures("ranks/device/"), ranks.ranks[0].device);
  check(overlap_measures(), ranks.overlap[0]);
  check(layer_measures(), 1.5);
  check(step_of_report("device/step"), ranks);
  check(step_of_report("layers/step"), ranks);
  for (const auto& [path, value] : there) CHECK((paths.contains(path) || path.starts_with("memory/")));
  const Hdf5Group provenance = hdf5_open_group(file.id(), "provenance");
  for (const auto& [measure, value] : start_measures()) {
    const std::string name = measure.path.substr(measure.path.find('/') + 1);
    there[measure.path] = hdf5_read_attribute<double>(provenance.id(), name);
  }
  const nlohmann::json expected = nlohmann::json::parse(kExpected);
  for (const auto& [group, values] : expected.items()) {
    for (const auto& [name, value] : values.items()) {
      INFO(group << "/" << name);
      CHECK(there.at(std::string(group).append("/").append(name)) == value.get<double>());
    }
  }
  CHECK((logged.at("exposed_share") == Approx(0.042) && logged.at("behind_share") == 0.2));
}
