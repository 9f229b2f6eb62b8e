// How a GPU's step spends its time, by events around its operations.

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>

#include "gpu_case.hpp"
#include "plan_run.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

struct GpuStepTimes {
  StepTimeTotals times;
  double seconds = 0;  ///< by the host's clock
};

/// Rank 0's steps.
std::vector<GpuStepTimes> timed_steps(const Options& options, std::int64_t world) {
  const Architecture architecture = tiny_gpt2();
  const PlannedRun planned = plan_run(options, architecture, world, world);
  std::vector<GpuStepTimes> steps;
  with_sessions(options, planned, [&](RankContext& context, TrainingSession& session) {
    for (std::int64_t step = 0; step < session.steps(); ++step) {
      const auto start = std::chrono::steady_clock::now();
      session.train_step();
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      const StepTimeTotals times = session.player().times().take();
      if (context.rank() == 0) steps.push_back({times, seconds});
    }
  });
  return steps;
}

double sum(const StepTimeTotals& times) {
  double all = 0;
  for (std::size_t i = 0; i < kTimeCategories; ++i) all += times.seconds(static_cast<TimeCategory>(i));
  return all;
}

}  // namespace

TEST_CASE("collectives that nothing hides are exposed communication, and no time is counted twice") {
  const GpuCount gpus(2);
  Options options = gpu_options();
  options.shard.strategy = Strategy::zero3;
  options.comm.emulate.latency = 0.03;  // of every collective
  const std::vector<GpuStepTimes> steps = timed_steps(options, 2);
  REQUIRE(steps.size() == 4);
  for (std::size_t i = 0; i < 2; ++i) {
    const StepTimeTotals& times = steps[i].times;
    INFO("step " << i + 1);
    REQUIRE(times.measured);
    // The first gather of a step, its last sum of gradients and the sum of its reduced have nothing that runs at the
    // same time.
    for (const TimeCategory category :
         {TimeCategory::exposed_gather, TimeCategory::exposed_reduce_scatter, TimeCategory::exposed_all_reduce}) {
      INFO(name_of(category));
      CHECK(times.seconds(category) >= 0.9 * options.comm.emulate.latency);
    }
    for (const TimeCategory category : {TimeCategory::forward, TimeCategory::backward, TimeCategory::optimizer})
      CHECK(times.seconds(category) > 0);
    CHECK(times.exposed_seconds() < sum(times));
    CHECK(sum(times) <= steps[i].seconds);
  }
  CHECK_FALSE(steps[2].times.measured);
  CHECK(std::isnan(steps[2].times.exposed_seconds()));
}

TEST_CASE("seconds of collectives are measured, or no number where nobody measures them") {
  const GpuCount gpus(2);
  Options options = gpu_options();
  options.train.steps = 1;
  options.optim.warmup_steps = 0;
  options.shard.strategy = Strategy::zero3;
  for (const CommBackend backend : {CommBackend::staged, CommBackend::nccl}) {
    options.comm.backend = backend;
    const PlannedRun planned = plan_run(options, tiny_gpt2(), 2, 2);
    with_sessions(options, planned, [&](RankContext& context, TrainingSession& session) {
      const CommunicationCounts before = session.resources().communicators->counts();
      session.train_step();
      const auto gather = static_cast<std::size_t>(Collective::all_gather);
      const double seconds = difference(session.resources().communicators->counts(), before)[gather].seconds;
      if (context.rank() != 0) return;
      if (backend == CommBackend::staged) CHECK(seconds > 0);
      if (backend == CommBackend::nccl) CHECK(std::isnan(seconds));
    });
  }
}

TEST_CASE("one GPU exposes no communication; replayed steps have no times") {
  Options options = gpu_options();
  const std::vector<GpuStepTimes> steps = timed_steps(options, 1);
  REQUIRE(steps.size() == 4);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepTimeTotals& times = steps[i].times;
    CHECK(times.measured == (i < 2));
    if (!times.measured) continue;
    CHECK(times.exposed_seconds() == 0);
    CHECK(sum(times) > 0);
    CHECK(sum(times) <= steps[i].seconds);
  }
}
