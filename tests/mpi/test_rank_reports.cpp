// The records of rank 0 about every rank. They need a world, because its control plane gathers the reports.

#include <cmath>

#include "mpi_world.hpp"
#include "plan_run.hpp"
#include "tessera/record/rank_reports.hpp"
#include "tessera/text/corpus.hpp"
#include "training/session_case.hpp"

using namespace tessera;
using namespace tessera::testing;
using test::world;

TEST_CASE("a report has every rank's sums since the report before, on rank 0 alone") {
  Options options = testing::base_options();
  options.train.accumulation = 1;
  const PlannedRun planned = plan_run(options, testing::small_gpt2(), world().size(), world().ranks_per_node());
  const Dataset data = open_dataset(options, testing::small_gpt2().vocab, planned.schedule.model.sequence);
  TrainingSession session(world(), options, planned, data);
  const std::int64_t rank = world().rank();
  RankReports reports(world(), session.schedule(), session.resources(), 0, nullptr);
  StepReport report;
  report.communication[1] = {1, 10 * (rank + 1), 0.25};
  report.step = 4;
  StepTimeTotals& times = report.times;
  times.nanoseconds[3] = 1'000'000'000 * (rank + 1);
  for (const bool timed : {true, false, true}) {
    times.measured = timed;
    times.nanoseconds[5] = 1'000'000'000 * (world().size() - rank);  // exposed gathers
    ++report.step;
    reports.add(report);
  }
  const auto first = reports.gather(7, true);
  REQUIRE_ALL(first.has_value() == (rank == 0));
  const auto second = reports.gather(9, false);
  bool right = true;
  if (rank == 0) {
    right = right && first->step == 7 && first->steps == 3 && first->timed_steps == 2;
    right = right && static_cast<std::int64_t>(first->ranks.size()) == world().size();
    for (std::size_t r = 0; r < first->ranks.size(); ++r) {
      const RankValues& values = first->ranks[r];
      const auto number = static_cast<std::int64_t>(r) + 1;
      right = right && values.times.at(3) == 2.0 * static_cast<double>(number) && values.times.at(0) == 0;
      right = right && values.communication[1].calls == 3 && values.communication[1].bytes == 30 * number;
      right = right && values.communication[1].seconds == 0.75 && values.communication[0].calls == 0;
      // One sample was made: it is the peak and the average of this process's memory.
      right = right && values.process > 0;
      right = right && values.memory_peak == static_cast<double>(values.process);
      right = right && values.memory_average == values.memory_peak;
      right = right && values.device.memory_used == -1 && std::isnan(values.device.power);
    }
    // Each timed step over the ranks: backward takes 1, 2, ... seconds, gathers the more on the ranks before.
    right = right && first->overlap.size() == 2 && first->overlap[0].step == 5 && first->overlap[1].step == 7;
    const auto size = static_cast<double>(world().size());
    for (const OverlapRow& one : first->overlap) {
      const Spread& compute = one.times.at(0);
      right = right && compute.minimum == 1 && compute.maximum == size && compute.median == (size + 1) / 2;
      right = right && one.times.at(6).minimum == 1 && one.times.at(6).maximum == size;
      right = right && one.straggler.rank == (world().size() == 1 ? -1 : world().size() - 1);
    }
    right = right && first->straggler.rank == (world().size() == 1 ? -1 : world().size() - 1);
    right = right && first->straggler.behind_seconds == (world().size() == 1 ? 0 : 2 * (size - size / 2));
    right = right && second->overlap.empty() && second->straggler.rank == -1;
    // Nothing was added since, and no step was timed.
    right = right && second->step == 9 && second->steps == 0 && second->timed_steps == 0;
    for (const RankValues& values : second->ranks)
      right = right && values.communication[1].calls == 0 && std::isnan(values.times.at(3)) && values.memory_peak > 0;
  }
  REQUIRE_ALL(right);
}
