#include "sweep/expected.hpp"

#include <algorithm>
#include <tuple>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/text_table.hpp"
#include "tessera/resolve/resolved_run.hpp"
#include "tessera/simulate/predict.hpp"

namespace tessera {

namespace {

ExpectedTime expected_of(const SweepRow& row, const Cluster& cluster) try {
  if (!row.trains()) return {.missing = "another program"};
  const Options options = on_cluster(row.options, cluster, row.ranks);
  ResolveSite site(Purpose::sweep, row.ranks, {options.plan.memory, 0, cluster.file});
  site.effort = kQuickPlan;  // addresses do not change the time
  const ResolvedRun run(options, site);
  const std::optional<std::int64_t> steps = planned_steps(run.options, run.planned.schedule);
  if (!steps) return {.missing = "train.epochs and the data decide its steps"};
  const Prediction p = predict(run.planned.schedule, run.planned.plan, run.options, cluster);
  return {*steps, p.step_seconds, p.uncertainty};
} catch (const UsageError& error) {
  return {.missing = error.what()};
}

}  // namespace

ExpectedTimes expected_times(const std::vector<SweepRow>& rows, const std::string& cluster) {
  const Cluster prices = read_cluster(cluster);
  ExpectedTimes times;
  for (const SweepRow& row : rows) times[row.name] = expected_of(row, prices);
  return times;
}

std::string expected_text(const ExpectedTimes& times, const std::vector<SweepRow>& rows, const SweepOptions& sweep) {
  TextTable table({"row", ">steps", ">step", ">+-", ">expected", ""});
  double all = 0;
  std::int64_t missing = 0;
  for (const SweepRow& row : rows) {
    const ExpectedTime& time = times.at(row.name);
    if (!time.missing.empty()) {
      ++missing;
      table.row({row.name, "-", "-", "-", "-", time.missing});
      continue;
    }
    all += time.seconds() * static_cast<double>(sweep.repeat);
    table.row({row.name, std::to_string(time.steps), format_seconds(time.step_seconds),
               fmt::format("{:.0f}%", 100 * time.uncertainty), format_seconds(time.seconds()), ""});
  }
  return fmt::format("expected at the prices of {}, steps alone\n{}  in all {}{}{}\n\n", sweep.cluster, table.text(),
                     format_seconds(all), sweep.repeat > 1 ? fmt::format(" for {} runs of each row", sweep.repeat) : "",
                     missing > 0 ? fmt::format(", without {}", counted(missing, "row")) : "");
}

void sort_by_time(std::vector<SweepRow>& rows, const ExpectedTimes& times) {
  std::ranges::stable_sort(rows, {}, [&](const SweepRow& row) {
    const ExpectedTime& time = times.at(row.name);
    return std::tuple{!time.missing.empty(), time.seconds()};
  });
}

}  // namespace tessera
