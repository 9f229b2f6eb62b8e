// The flight recorder learns from the streams of emulated GPUs how far they have come.

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "emulated/training/gpu_case.hpp"
#include "temporary_folder.hpp"
#include "tessera/engine/operation_log.hpp"
#include "tessera/flight/survey.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr int kRanks = 2;
constexpr auto kSegments = static_cast<std::size_t>(kFlightRings) - 1;

/// Trains on two GPUs with flight recorders in a folder. `before` is called on each rank before each step.
template <class Before>
void train_recorded(const TemporaryFolder& folder, const Options& options, Before&& before) {
  const GpuCount gpus(kRanks);
  const PlannedRun planned = plan_shape(run_shape(options, {tiny_gpt2(), kRanks, kRanks}));
  run_ranks(kRanks, kRanks, [&](RankContext& context) {
    FlightRecorder flight({folder.path(), false}, context.rank(), kRanks, "a", planned.schedule.hash(),
                          flight_operations(planned.schedule));
    const Dataset data = open_dataset(options, planned.schedule.model.architecture.vocab, options.train.seq_len);
    TrainingSession session(context, options, planned, data, {}, {}, {}, &flight);
    for (std::int64_t step = 1; step <= session.steps(); ++step) {
      flight.set_step(step);
      before(context, step, flight);
      session.train_step();
    }
    session.player().synchronize();
  });
}

/// Returns the number of collectives that a rank noted, all of which must be done.
std::uint64_t collectives_of(const RankFlight& rank) {
  std::uint64_t sum = 0;
  for (std::size_t ring = 1; ring < kSegments; ++ring) {
    const FlightOperationSeen& last = rank.last[ring];
    sum += last.record.number;
    if (last.record.number == 0) continue;
    CHECK_FALSE(last.is_under_way());
    CHECK(last.work == FlightWork::collective);
    CHECK(last.record.step == rank.header.step);
  }
  CHECK_FALSE(rank.last[kSegments].is_under_way());
  return sum;
}

Options two_micro_steps() {
  Options options = gpu_options();
  options.train.micro_batch = 1;
  options.train.accumulation = 2;
  options.shard.strategy = Strategy::zero3;
  return options;
}

}  // namespace

TEST_CASE("streams count the same collectives eagerly and in graphs, staged and by NCCL, in parallel and in turn") {
  Options options = two_micro_steps();
  const PlannedRun planned = plan_shape(run_shape(options, {tiny_gpt2(), kRanks, kRanks}));
  const StepSchedule& s = planned.schedule;
  std::uint64_t expected = 0;
  const auto count = [&](const std::vector<Play>& plays, std::int64_t times) {
    for (const Play& play : plays) {
      for (const OperationId id : s.segments[play.segment].operations()) {
        const bool sends = s.communicates(s.operation(id)) && !takes_input(s.operation(id));
        expected += sends ? static_cast<std::uint64_t>(times) : 0;
      }
    }
  };
  count(s.prologue, 1);
  count(s.step, options.train.steps);
  CHECK(expected > 40);
  for (const CommBackend backend : {CommBackend::staged, CommBackend::nccl}) {
    for (const bool graph : {false, true}) {
      options.comm.backend = backend, options.run.graph = graph;
      options.run.queues = graph ? QueueMode::parallel : QueueMode::serial;
      CAPTURE(backend, graph);
      const TemporaryFolder folder;
      train_recorded(folder, options, [](auto&&...) {});
      for (const RankFlight& rank : survey({folder.path()}).ranks) CHECK(collectives_of(rank) == expected);
    }
  }
}

TEST_CASE("a hang of GPUs has the name of the collective that a rank never arrived in") {
  Options options = two_micro_steps();
  options.comm.backend = CommBackend::nccl;
  std::atomic<FlightRecorder*> first = nullptr;
  std::string verdict;
  const TemporaryFolder folder;
  train_recorded(folder, options, [&](RankContext& context, std::int64_t step, FlightRecorder& flight) {
    if (context.rank() == 0) first = &flight;
    if (context.rank() == 0 || step < 4) return;  // a step that is replayed
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (verdict.empty() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      first.load()->look();
      flight.look();
      verdict = flight_verdict(survey({flight.folder()}));
    }
  });
  CHECK_THAT(verdict, Catch::Contains("never arrived in gather h.1 of step 4, where rank 0 waits for 1") &&
                          Catch::StartsWith("rank 1 "));
}

TEST_CASE("what a staged collective waited for is still told after the time-out, when streams have run on") {
  Options options = two_micro_steps();
  options.run.timeout = 2;
  const TemporaryFolder folder;
  const auto rank_1_does_not_come = [](RankContext& context, std::int64_t step, FlightRecorder&) {
    if (context.rank() == 0 || step < 4) return;
    while (!context.notice().raised()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  CHECK_THROWS_AS(train_recorded(folder, options, rank_1_does_not_come), TimeoutError);
  CHECK_THAT(
      flight_verdict(survey({folder.path()})),
      Catch::Matches("rank 1 on \\S+ never arrived in (gather h.1|all-reduce wish) of step 4, where rank 0 waits "
                     "for 2[^]*"));
}
