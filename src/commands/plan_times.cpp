#include "commands/plan_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "commands/plan_rows.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/text_table.hpp"
#include "tessera/base/wrap.hpp"
#include "tessera/telemetry/provenance.hpp"

namespace tessera {

namespace {

/// One strategy's step at a cluster's prices.
std::vector<std::string> prediction_cells(const StrategyRow& row, const Prediction& p) {
  const auto percent = [&](double share) { return fmt::format("{:.1f}%", 100 * share); };
  return {fmt::format("{}{}", name_of(row.strategy), row.chosen ? " *" : ""),
          format_seconds(p.step_seconds),
          fmt::format("{:.0f}%", 100 * p.uncertainty),
          format_count(static_cast<std::int64_t>(p.tokens_per_second)),
          std::isnan(p.mfu) ? "" : percent(p.mfu),
          percent(exposed_seconds(p) / p.step_seconds),
          p.limit};
}

}  // namespace

std::string strategy_times(const Options& options, const std::vector<StrategyRow>& rows, const Cluster& cluster) {
  std::vector<std::pair<double, std::vector<std::string>>> ranked;
  std::vector<std::string> others;
  for (const StrategyRow& row : rows) {
    if (!row.repeats.empty()) continue;
    if (!row.impossible.empty()) {
      others.push_back(fmt::format("{}: {}", name_of(row.strategy), row.impossible));
    } else if (!fits(row, options.plan.memory)) {
      others.push_back(fmt::format("{}{}: does not fit, needs {} of {}", name_of(row.strategy), row.chosen ? " *" : "",
                                   format_bytes(limited_bytes(row.schedule, row.plan)),
                                   format_bytes(options.plan.memory)));
    } else {
      const Prediction p = predict(row.schedule, row.plan, options, cluster);
      ranked.emplace_back(p.step_seconds, prediction_cells(row, p));
    }
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& row) { return row.first; });
  TextTable table({"strategy", ">step", ">+-", ">tokens/s", ">MFU", ">exposed", "limited by"});
  for (auto& [seconds, cells] : ranked) table.row(std::move(cells));
  for (const std::string& line : others) table.line(line);
  const auto chosen = std::ranges::find_if(rows, &StrategyRow::chosen);
  const std::string remark = chosen == rows.end() ? "" : remark_on_host(cluster, chosen->schedule, cpu_model());
  return fmt::format("all strategies: time of a step, predicted with {} ({}), the fastest first\n{}{}", cluster.file,
                     cluster.name, table.text(), remark.empty() ? "" : wrapped("  " + remark, 2) + "\n");
}

std::optional<RunCost> planned_cost(const ResolvedRun& run, const std::optional<Cluster>& cluster) {
  if (run.options.is_open("train.steps") && run.options.is_open("train.tokens")) return std::nullopt;
  const auto& [schedule, plan] = run.planned;
  const std::optional<std::int64_t> steps = planned_steps(run.options, schedule);
  if (!steps) return std::nullopt;
  const std::int64_t memory = run.options.plan.memory;
  if (!cluster || (memory > 0 && limited_bytes(schedule, plan) > memory)) return cost_of(*steps, schedule, nullptr, 1);
  const Prediction prediction = predict(schedule, plan, run.options, *cluster);
  return cost_of(*steps, schedule, &prediction, cluster->threads);
}

}  // namespace tessera
