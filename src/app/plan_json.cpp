#include "app/plan_json.hpp"

#include <nlohmann/json.hpp>

#include "app/plan_rows.hpp"
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

}  // namespace

Json plan_json(const std::string& model, const RunShape& shape, const PlannedRun& planned,
               const std::optional<FitAnswer>& fit) {
  Json json = schedule_json(planned.schedule, planned.plan);
  json["model"] = model;
  json["strategies"] = strategies_json(strategy_rows(shape));
  json["reductions"] = reductions_json(reduction_rows(shape));
  json["recomputations"] = recomputations_json(recomputation_rows(shape));
  json["fit"] = fit ? fit_json(*fit) : Json();
  return json;
}

}  // namespace tessera
