#include "commands/plan_json.hpp"

#include <nlohmann/json.hpp>

#include "commands/plan_rows.hpp"
#include "commands/plan_times.hpp"
#include "tessera/schedule/print_json.hpp"

namespace tessera {

using Json = nlohmann::ordered_json;

namespace {

Json reductions_json(const std::vector<ReductionRow>& rows) {
  Json list = Json::array();
  for (const ReductionRow& row : rows) {
    list.push_back({{"reduce", name_of(row.reduce)},
                    {"chosen", row.chosen},
                    {"to_allocate", row.to_allocate},
                    {"wire_bytes_per_step", row.wire_bytes},
                    {"accumulators", row.accumulators}});
  }
  return list;
}

Json recomputations_json(const std::vector<RecomputationRow>& rows) {
  Json list = Json::array();
  for (const RecomputationRow& row : rows) {
    list.push_back({{"recomputation", describe(row.recomputation)},
                    {"chosen", row.chosen},
                    {"to_allocate", row.to_allocate},
                    {"recomputed_flops_per_step", row.flops}});
  }
  return list;
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

/// Returns the same facts as describe_fit.
Json fit_json(const FitAnswer& answer) {
  Json changes = Json::array();
  for (const FitChange& change : answer.changes)
    changes.push_back({{"option", change.option}, {"bytes", change.bytes}});
  return {{"needed", answer.needed},
          {"allowed", answer.allowed},
          {"fits", answer.fits()},
          {"peak", answer.peak},
          {"changes", std::move(changes)},
          {"together", text_or_null(answer.together)},
          {"smallest", text_or_null(answer.smallest)}};
}

}  // namespace

Json plan_json(const std::string& model, const ResolvedRun& run, const std::optional<Cluster>& cluster,
               const std::optional<FitAnswer>& fit) {
  const RunShape& shape = run.shape;
  Json json = schedule_json(run.planned.schedule, run.planned.plan);
  json["model"] = model;
  const std::vector<StrategyRow> rows = strategy_rows(shape, run.options);
  json["strategies"] = strategies_json(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].repeats.empty()) json["strategies"][i]["repeats"] = rows[i].repeats;
    if (rows[i].impossible.empty() && run.options.plan.memory > 0)
      json["strategies"][i]["fits"] = fits(rows[i], run.options.plan.memory);
  }
  json["reductions"] = reductions_json(reduction_rows(shape));
  json["recomputations"] = recomputations_json(recomputation_rows(shape));
  if (const Adapters& adapters = shape.architecture.adapters; adapters.on()) {
    json["adapters"] = {{"rank", adapters.rank},
                        {"alpha", adapters.alpha},
                        {"modules", adapters.targets},
                        {"saved_by_freezing", saved_by_freezing(shape, run.planned)}};
  }
  json["fit"] = fit ? fit_json(*fit) : Json();
  const std::optional<RunCost> length = planned_cost(run, cluster);
  json["length"] = length ? cost_json(*length) : Json();
  json["prediction"] = Json();
  if (!cluster) return json;
  json["prediction"] = prediction_json(predict(run.planned.schedule, run.planned.plan, run.options, *cluster));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].impossible.empty())
      json["strategies"][i]["prediction"] =
          prediction_json(predict(rows[i].schedule, rows[i].plan, run.options, *cluster));
  }
  return json;
}

}  // namespace tessera
