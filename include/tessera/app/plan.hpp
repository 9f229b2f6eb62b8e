#pragma once
// `tessera plan`: memory, units and schedule of a run, without ranks and without allocating it.

#include <string>

#include "tessera/config/options.hpp"

namespace tessera {

/// Ranks that share a node where only a world is known: grid.ranks_per_node, or the largest divisor of `world` up to 8.
std::int64_t planned_ranks_per_node(const Options& options, std::int64_t world);

/// A headline and plan.view for plan.ranks ranks. Every family works. UsageError for impossible options, as in train.
std::string plan_text(const Options& options);

/// Prints plan_text. Returns the exit code; with plan.memory, UsageError (after the text) where the run does not fit.
int run_plan(const Options& options);

}  // namespace tessera
