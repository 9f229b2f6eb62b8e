// A prediction is in metrics.h5 before the first step, and beside the measured steps at the end.

#include <catch2/catch.hpp>

#include "printed_to.hpp"
#include "simulate/simulated_run.hpp"
#include "temporary_folder.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/record/recorder.hpp"

using namespace tessera;
using namespace tessera::testing;
using namespace tessera::test;
using Catch::Contains;

namespace {

/// A run of two ranks on a machine whose prices follow from rates.
struct PredictedRun {
  explicit PredictedRun(const Rates& rates = {}, DeviceKind device = DeviceKind::cpu) {
    Cluster machine = machine_of(rates);
    machine.device = device;
    options.plan.cluster = folder.write("machine.ini", cluster_text(machine, "")).string();
    options.run.queues = QueueMode::serial;
    options.run.threads = 1;
  }
  RunPrediction prediction() const { return *predict_run(run, options); }

  TemporaryFolder folder;
  Options options;
  PlannedRun run = planned("nano", Strategy::zero3, 2);
};

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
