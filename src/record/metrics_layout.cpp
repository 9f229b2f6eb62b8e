#include "record/metrics_layout.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "tessera/config/data_sources.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/schedule/print_json.hpp"

namespace tessera {

namespace {

/// The most bytes that /samples keeps of one text; log.jsonl has the whole text.
constexpr std::int64_t kSampleBytes = 4096;

/// Returns the category's group in /memory.
std::string memory_name(Category category) {
  std::string name(name_of(category));
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

}  // namespace

MetricsLayout metrics_layout(const Options& options, const PlannedRun& planned, const RunAccount& account) {
  const StepSchedule& schedule = planned.schedule;
  const std::int64_t ranks = schedule.grid.world();
  MetricsLayout layout;
  AttributeGroup config{"config", {}}, start{"provenance", {}};
  for (const OptionValue& option : flat_options(options)) config.values.emplace_back(option.name, option.value);
  for (const auto& [name, value] : provenance(account.facts)) start.values.emplace_back(name, value);
  for (const MeasureOf<RunAccount>& one : start_measures())
    start.values.emplace_back(one.measure.path.substr(start.path.size() + 1), one.value(account));
  layout.attributes = {std::move(config), std::move(start), {"model", account.model}};
  if (!account.sources.empty()) layout.attributes.push_back({"sources", account.sources});
  if (account.prediction)
    std::ranges::move(prediction_groups(*account.prediction), std::back_inserter(layout.attributes));

  layout.tables.resize(kTables);
  const auto add = [&](RunTable table, const auto& measures, std::int64_t width = 0) {
    add_columns(layout.tables[at(table)], measures, width);
  };
  add(RunTable::steps, step_measures());
  add(RunTable::steps, source_measures(mixture_names(options.data)));
  add(RunTable::evaluations, evaluation_measures(validation_names(options.data)));
  add(RunTable::checkpoints, checkpoint_measures());
  add(RunTable::ranks, report_measures());
  add(RunTable::ranks, rank_measures(), ranks);
  add(RunTable::overlap, overlap_measures());
  if (account.has_monitor) {
    add(RunTable::device, step_of_report("device/step"));
    add(RunTable::device, device_measures("device/"));
    add(RunTable::ranks, device_measures("ranks/device/"), ranks);
  }
  if (schedule.reserved(Reserved::unit_sums)) {
    std::vector<std::string> layers;
    for (const Unit& unit : schedule.layout.units) layers.push_back(unit.name);
    layout.attributes.push_back({"layers", {{"names", fmt::format("{}", fmt::join(layers, ","))}}});
    add(RunTable::layers, step_of_report("layers/step"));
    add(RunTable::layers, layer_measures(), static_cast<std::int64_t>(layers.size()));
  }
  if (options.train.sample_every > 0)
    layout.tables[at(RunTable::samples)] = {{"samples/step", ColumnKind::integer},
                                            {"samples/text", ColumnKind::text, kSampleBytes}};
  const auto on_all = [&](std::int64_t bytes) { return std::vector(static_cast<std::size_t>(ranks), bytes); };
  for (int c = 0; c < kCategories; ++c) {
    std::int64_t bytes = 0;
    for (const SpacePlan& place : planned.plan.spaces) bytes += place.own_peak[static_cast<std::size_t>(c)];
    layout.memory.push_back({memory_name(static_cast<Category>(c)), on_all(bytes)});
  }
  layout.memory.push_back({"process", on_all(planned.plan.total())});
  layout.schedule = schedule_json_text(schedule, planned.plan);
  layout.schedule_format = kScheduleFormat;
  layout.swmr = options.metrics.swmr;
  return layout;
}

}  // namespace tessera
