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
  ranks.overlap = {{4, {1, 0.75, 0}, std::vector<Spread>(kOverlapKinds, {1, 2, 3})}};
  ranks.layer_norms.assign(planned.schedule.layout.units.size(), 1.5);
  printed_to(1, [&] {
    RunRecorder recorder(options, folder / "run", 1);
    RunAccount account;
    account.has_monitor = true;
    recorder.begin(planned, 0, 12, account);
    recorder.record_step(step, 100);
    recorder.record_evaluation(2, evaluation.sets);
    recorder.record_checkpoint(checkpoint);
    recorder.record_ranks(ranks);
    recorder.record_first_step(1.5);
    recorder.finish(RunState::finished, ExitCode::finished, "");
  });

  const Hdf5File file = Hdf5File::open(folder / "run/metrics.h5");
  const std::map<std::string, double> there = first_values(file);
  std::map<std::string, nlohmann::json> logged;
  std::istringstream lines(read_file(folder / "run/log.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json fields = nlohmann::json::parse(line);
    for (const auto& [key, value] : fields.items()) logged.emplace(key, value);
  }
  std::set<std::string> paths;
  const auto check = [&](const auto& measures, const auto& row) {
    for (const auto& [measure, value] : measures) {
      INFO(measure.path << " " << measure.log);
      CHECK_FALSE(measure.help.empty());
      if (!measure.log.empty()) CHECK(logged.contains(measure.log));
      if (measure.path.empty()) continue;
      CHECK(paths.insert(measure.path).second);
      REQUIRE(there.contains(measure.path));
      const double wanted = value(row), found = there.at(measure.path);
      const bool is_added = wanted == 0 && found > 0;  // by the recorder: times, rates
      CHECK((found == wanted || (std::isnan(found) && std::isnan(wanted)) || is_added));
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
  for (const auto& [measure, value] : start_measures())
    CHECK_NOTHROW(hdf5_read_attribute<double>(provenance.id(), measure.path.substr(measure.path.find('/') + 1)));
  CHECK(hdf5_read_attribute<double>(provenance.id(), kFirstStep) == 1.5);
  CHECK((logged.at("straggler") == 0 && logged.at("behind_seconds") == 0.5 && logged.at("behind_share") == 0.2));
  CHECK((logged.at("skipped") == true && logged.at("loss") == 3.5 && there.at("steps/tokens_per_second") == 200));
}
