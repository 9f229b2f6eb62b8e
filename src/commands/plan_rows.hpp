#pragma once
// The alternatives with which `tessera plan` compares the run that it plans.

#include <vector>

#include "tessera/schedule/planned_run.hpp"
#include "tessera/schedule/print.hpp"

namespace tessera {

/// Plans the run under every strategy, with copies kept where a run of it would keep them.
std::vector<StrategyRow> strategy_rows(const RunShape& shape, const Options& options);

/// Returns whether a possible row needs at most `memory` bytes per rank; always true of 0, which is unknown.
bool fits(const StrategyRow& row, std::int64_t memory);

/// The cost of one setting of shard.reduce, per rank.
struct ReductionRow {
  ReduceWhen reduce = ReduceWhen::micro_step;
  bool chosen = false;
  std::int64_t to_allocate = 0;   ///< bytes
  std::int64_t wire_bytes = 0;    ///< sent per step
  std::int64_t accumulators = 0;  ///< bytes of gradient sums
};

/// Plans the run under both settings of shard.reduce; empty if there is no difference (one micro-step or one rank).
std::vector<ReductionRow> reduction_rows(const RunShape& shape);

/// Returns the bytes per rank that a planned run with adapters allocates less than if all its weights trained.
std::int64_t saved_by_freezing(const RunShape& shape, const PlannedRun& planned);

/// What one recomputation saves and costs, per rank.
struct RecomputationRow {
  Recomputation recomputation;
  bool chosen = false;
  std::int64_t to_allocate = 0;  ///< bytes
  std::int64_t bought = 0;       ///< bytes saved compared with no recomputation
  std::int64_t flops = 0;        ///< recomputed per step
  double share = 0;              ///< of a step's FLOPs without recomputation
};

/// Plans the run with nothing recomputed, each half of every block, and both; and as chosen.
std::vector<RecomputationRow> recomputation_rows(const RunShape& shape);

}  // namespace tessera
