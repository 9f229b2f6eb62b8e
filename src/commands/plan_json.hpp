#pragma once
// The output of `tessera plan` as one JSON document (docs/manual/schedule_json.md).

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "tessera/resolve/resolved_run.hpp"
#include "tessera/simulate/cluster.hpp"

namespace tessera {

/// Returns schedule_json, followed by the model's name, all strategies and both settings of
/// shard.reduce. Last come whether the run fits into plan.memory, and the step's time at a cluster's prices, which each
/// strategy has too; both are null if they are not asked.
nlohmann::ordered_json plan_json(const std::string& model, const ResolvedRun& run,
                                 const std::optional<Cluster>& cluster, const std::optional<FitAnswer>& fit);

}  // namespace tessera
