#pragma once
// `tessera plan`: memory, units and schedule of a run, without ranks and without allocating it.

#include <string>

#include "tessera/config/options.hpp"

namespace tessera {

/// Returns grid.ranks_per_node, or the largest divisor of `world` up to 8: ranks per node where only a world is known.
std::int64_t planned_ranks_per_node(const Options& options, std::int64_t world);

/// Returns a headline and plan.view for plan.ranks ranks, for every model family; or a JSON document of everything, as
/// plan.format says. UsageError for impossible options, as in train.
std::string plan_text(const Options& options);

/// Prints plan_text and returns the exit code. With plan.memory, UsageError (after the text) if the run does not fit.
int run_plan(const Options& options);

}  // namespace tessera
