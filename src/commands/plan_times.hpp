#pragma once
// What `tessera plan` says about time: all strategies side by side, and how long the run will be.

#include <optional>
#include <string>
#include <vector>

#include "tessera/resolve/resolved_run.hpp"
#include "tessera/schedule/print.hpp"
#include "tessera/simulate/run_cost.hpp"

namespace tessera {

/// Returns the table of predicted steps, the fastest first. Strategies that do not fit plan.memory are not ranked, and
/// those that repeat another are left out.
std::string strategy_times(const Options& options, const std::vector<StrategyRow>& rows, const Cluster& cluster);

/// Returns how long the run is; nothing where neither train.steps nor train.tokens says it. The time is known with a
/// cluster, and of a run that fits plan.memory.
std::optional<RunCost> planned_cost(const ResolvedRun& run, const std::optional<Cluster>& cluster);

}  // namespace tessera
