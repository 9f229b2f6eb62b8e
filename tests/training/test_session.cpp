// Decisions that options leave to a session: threads, how queues run, which steps are timed.

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "plan_run.hpp"
#include "training/draw.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

MachineShape machine_of(int ranks, int cores) {
  MachineShape machine;
  machine.machine_ranks = ranks, machine.machine_cores = cores;
  return machine;
}

}  // namespace

TEST_CASE("without a word about it, a rank's cores are the machine's") {
  CHECK(MachineShape{}.machine_cores == allowed_cores());
}

TEST_CASE("threads: the machine's cores dealt to its ranks, within what a rank may use") {
  Options options;
  const int own = allowed_cores();
  CHECK(threads_of(options, machine_of(1, own)) == own);
  CHECK(threads_of(options, machine_of(own, own)) == 1);
  CHECK(threads_of(options, machine_of(2 * own, own)) == 1);
  CHECK(threads_of(options, machine_of(3, 3 * own)) == own);  // three ranks, each bound to its own cores
  CHECK(threads_of(options, machine_of(2, 100 * own)) == own);
  options.run.threads = 7;
  CHECK(threads_of(options, machine_of(2, 4)) == 7);
}

TEST_CASE("the queue mode and spinning look at the whole machine") {
  Options options;
  CHECK(queue_mode_of(options, 1, machine_of(2, 2)) == QueueMode::serial);
  CHECK(queue_mode_of(options, 1, machine_of(2, 3)) == QueueMode::parallel);
  CHECK(queue_mode_of(options, 2, machine_of(2, 4)) == QueueMode::serial);
  CHECK(threads_on_cores(2, machine_of(2, 4)) == 2);
  CHECK(threads_on_cores(2, machine_of(2, 3)) == 4);
  options.comm.emulate.latency = 1e-3;
  CHECK(queue_mode_of(options, 2, machine_of(2, 4)) == QueueMode::parallel);
}

TEST_CASE("machines that are not alike train to the bits of those that are") {
  Options options = base_options();
  options.run.threads = 0;
  options.shard.strategy = Strategy::zero3;
  options.train.accumulation = 2;
  const std::int64_t per_node = GENERATE(1, 2);  // ranks of a machine may be bound to unlike sets of cores
  const PlannedRun planned = plan_run(options, small_gpt2(), 2, per_node);
  const RunOutcome alike = train_locally(options, small_gpt2(), 2, per_node, machine_of(1, 1));
  RunOutcome outcome = empty_outcome(planned);
  std::mutex mutex;
  run_ranks(2, per_node, [&](RankContext& context) {
    MachineShape machine = machine_of(1, 1);
    if (context.rank() == 1) machine.machine_cores = 2 * allowed_cores();  // all compute, and one is left
    train_rank(context, options, planned, machine, {}, context.rank() == 0, outcome, mutex);
  });
  require_same_bits(alike, outcome);
}

TEST_CASE("ranks with other options are refused, and the option is named") {
  const Options options = base_options();
  const PlannedRun planned = plan_run(options, small_gpt2(), 2, 2);
  const auto play = [&] {
    run_ranks(2, 2, [&](RankContext& context) {
      Options mine = options;
      if (context.rank() == 1) mine.run.threads = 2;
      const Dataset data = open_dataset(options, small_gpt2().vocab, planned.schedule.model.sequence);
      TrainingSession(context, mine, planned, data);
    });
  };
  CHECK_THROWS_WITH(play(),
                    Catch::Contains("rank 1 differs") && Catch::Contains("'threads = 2' instead of 'threads = 1'"));
}

TEST_CASE("a rank that reads its weights late is waited for longer than one that is late in a collective") {
  Options options = base_options();
  options.run.timeout = 2;
  options.shard.strategy = Strategy::zero1;  // gathers in the prologue
  std::atomic<bool> is_read{false};
  const TensorSource late = [&](TensorId, std::int64_t, std::span<float> out) {
    if (!is_read.exchange(true)) std::this_thread::sleep_for(std::chrono::seconds(3));
    std::ranges::fill(out, 0.01f);
  };
  const PlannedRun planned = plan_run(options, small_gpt2(), 2, 2);
  CHECK_NOTHROW(run_ranks(2, 2, [&](RankContext& context) {
    const Dataset data = open_dataset(options, small_gpt2().vocab, planned.schedule.model.sequence);
    TrainingSession(context, options, planned, data, {}, late);
  }));
}

TEST_CASE("every step is timed on cores, every 50th on a GPU, and at least as many as are wanted") {
  Options options;
  CHECK(steps_between_timed(options, DeviceKind::cpu, 1000, 10) == 1);
  CHECK(steps_between_timed(options, DeviceKind::cuda, 1000, 10) == 50);
  CHECK(steps_between_timed(options, DeviceKind::cuda, 499, 10) == 49);
  CHECK(steps_between_timed(options, DeviceKind::cuda, 20, 10) == 2);
  CHECK(steps_between_timed(options, DeviceKind::cuda, 3, 10) == 1);
  CHECK(steps_between_timed(options, DeviceKind::cuda, 3, 0) == 50);  // a bench
  options.metrics.time_every = 7;
  for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda}) {
    CHECK(steps_between_timed(options, device, 1000, 10) == 7);
    CHECK(steps_between_timed(options, device, 60, 10) == 6);
  }
}
