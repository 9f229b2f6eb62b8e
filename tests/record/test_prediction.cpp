// A prediction is in metrics.h5 before the first step.

#include <catch2/catch.hpp>

#include "printed_to.hpp"
#include "record/predicted_run.hpp"
#include "tessera/base/error.hpp"
#include "tessera/engine/operation_log.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/record/recorder.hpp"

using namespace tessera;
using namespace tessera::testing;
using namespace tessera::test;
using Catch::Contains;

TEST_CASE("a prediction and its file's hash are in metrics.h5 before step 1, again at each start") {
  PredictedRun c;
  RunAccount account;
  for (const double memory : {1e10, 2e10}) {
    const PredictedRun at({1e11, memory, 1e9});
    account.prediction = at.prediction();
    printed_to(1, [&] {
      RunRecorder recorder(c.options, c.folder / "run", 2);
      recorder.begin(c.run, 0, 12, account);
      recorder.finish(RunState::stopped, ExitCode::stopped_early, "before its first step");
    });
    const bool first = memory == 1e10;
    const Hdf5File file = Hdf5File::open(c.folder / "run" / (first ? "metrics.h5" : "metrics.1.h5"));
    CHECK(hdf5_read<std::int64_t>(file.id(), "steps/step").empty());
    const Hdf5Group group = hdf5_open_group(file.id(), "prediction"), time = hdf5_open_group(group.id(), "time"),
                    uncertainty = hdf5_open_group(group.id(), "uncertainty");
    const Prediction& step = account.prediction->step;
    CHECK(hdf5_read_attribute<double>(group.id(), "step_seconds") == step.step_seconds);
    CHECK(hdf5_read_attribute<std::string>(group.id(), "cluster") == at.options.plan.cluster);
    CHECK(hdf5_read_attribute<std::string>(group.id(), "cluster_hash") ==
          "xxh3:" + read_cluster(at.options.plan.cluster).hash);
    CHECK(hdf5_read_attribute<std::string>(group.id(), "predicted_at").size() == 20);
    double all = hdf5_read_attribute<double>(group.id(), "host_seconds");
    for (const std::string& name : time_category_names()) all += hdf5_read_attribute<double>(time.id(), name);
    CHECK(all == Approx(step.step_seconds));
    CHECK(hdf5_read_attribute<double>(uncertainty.id(), "backward") == Approx(0.1));
    c.options.checkpoint.resume = "auto";
  }
}

TEST_CASE("there is no prediction without plan.cluster, of another device, or without a price") {
  PredictedRun c;
  CHECK_THROWS_WITH(PredictedRun({}, DeviceKind::cuda).prediction(),
                    Contains("has the prices of cuda, and this run computes on cpu"));
  Cluster machine = machine_of({});
  machine.prices.erase("norm backward.fp32");
  c.options.plan.cluster = c.folder.write("less.ini", cluster_text(machine, "")).string();
  CHECK_THROWS_WITH(c.prediction(), Contains("less.ini") && Contains("norm backward.fp32"));
  c.options.plan.cluster.clear();
  CHECK_FALSE(predict_run(c.run, c.options));
}

TEST_CASE("operations and segments are expected to take their predicted times") {
  const PredictedRun c;
  const StepSchedule& s = c.run.schedule;
  const Prediction step = c.prediction().step;
  const std::vector<double> seconds = expected_seconds(step, s);
  REQUIRE(seconds.size() == flight_operations(s).size());
  double sum = 0;
  for (const Play& play : s.step) {
    double of_segment = 0;
    for (const OperationId id : s.segments[play.segment].operations())
      of_segment += seconds[static_cast<std::size_t>(id.number())];
    CHECK(seconds[s.operations.size() + static_cast<std::size_t>(play.segment.number())] == Approx(of_segment));
    sum += of_segment;
  }
  CHECK(sum == Approx(step.step_seconds - step.timeline.host));
}
