#include "record/metrics_layout.hpp"

#include <algorithm>
#include <limits>

#include "tessera/config/describe.hpp"
#include "tessera/config/validation_sources.hpp"
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
  MetricsLayout layout;
  layout.step_times = layout.rank_times = time_category_names();
  layout.step_times.emplace_back("recording");
  layout.overlap_times = overlap_names();
  const auto ranks = static_cast<std::size_t>(planned.schedule.grid.world());
  for (int c = 0; c < kCategories; ++c) {
    std::int64_t bytes = 0;
    for (const SpacePlan& place : planned.plan.spaces) bytes += place.own_peak[static_cast<std::size_t>(c)];
    layout.memory.push_back({memory_name(static_cast<Category>(c)), std::vector<std::int64_t>(ranks, bytes)});
  }
  layout.memory.push_back({"process", std::vector<std::int64_t>(ranks, planned.plan.total())});
  for (const OptionValue& option : flat_options(options)) layout.config.emplace_back(option.name, option.value);
  layout.provenance = provenance(account.facts);
  constexpr double kLater = std::numeric_limits<double>::quiet_NaN();
  layout.numbers = {{kFirstStep, kLater},
                    {"cores", account.cores},
                    {"compute_threads", account.compute_threads},
                    {"load_average_start", account.load.load_average},
                    {kLoadAtEnd, kLater},
                    {"gpu_foreign_processes_start", account.load.gpu_foreign_processes},
                    {kForeignAtEnd, kLater}};
  layout.model = account.model;
  if (account.prediction) layout.prediction = prediction_groups(*account.prediction);
  layout.schedule = schedule_json_text(planned.schedule, planned.plan);
  layout.schedule_format = kScheduleFormat;
  if (planned.schedule.unit_sums) {
    for (const Unit& unit : planned.schedule.layout.units) layout.layers.push_back(unit.name);
  }
  layout.device = account.has_monitor;
  layout.swmr = options.metrics.swmr;
  if (options.train.sample_every > 0) layout.sample_bytes = kSampleBytes;
  for (const ValidationSource& set : validation_sources(options.data.val_source)) layout.eval_sets.push_back(set.name);
  return layout;
}

}  // namespace tessera
