#include "commands/plan_rows.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/fit/decide_fit.hpp"

namespace tessera {

namespace {

/// Returns the strategy without replicas that does the same, if all ranks are in one shard group; else nothing.
std::string_view repeated_by(const StrategyRow& row) {
  const StrategyRules& rules = rules_of(row.strategy);
  if (!rules.is_hybrid() || row.schedule.grid.size(Group::replica) > 1) return {};
  const auto same = std::ranges::find_if(all_strategies(), [&](const StrategyRules& other) {
    return !other.is_hybrid() && other.state == rules.state && other.life == rules.life;
  });
  return same == all_strategies().end() ? std::string_view() : same->name;
}

}  // namespace

std::vector<StrategyRow> strategy_rows(const RunShape& shape, const Options& options) {
  const auto limits = [&] { return FitLimits{options.plan.memory}; };
  std::vector<StrategyRow> rows;
  for (const StrategyRules& rules : all_strategies()) {
    const Strategy strategy = rules.strategy;
    StrategyRow& row = rows.emplace_back();
    row.strategy = strategy;
    row.chosen = strategy == shape.policy.strategy;
    try {
      PlannedRun planned =
          plan_shape(row.chosen ? shape : with_copies_kept(with_strategy(shape, strategy), options, limits));
      row.schedule = std::move(planned.schedule);
      row.plan = std::move(planned.plan);
    } catch (const UsageError& error) {
      row.impossible = error.what();
    }
    if (row.impossible.empty() && !row.chosen) row.repeats = repeated_by(row);
  }
  return rows;
}

bool fits(const StrategyRow& row, std::int64_t memory) {
  return memory == 0 || limited_bytes(row.schedule, row.plan) <= memory;
}

std::vector<ReductionRow> reduction_rows(const RunShape& shape) {
  if (shape.policy.accumulation == 1 || shape.world == 1) return {};
  std::vector<ReductionRow> rows;
  for (const ReduceWhen reduce : {ReduceWhen::micro_step, ReduceWhen::step}) {
    RunShape other = shape;
    other.policy.reduce_each_micro_step = reduce == ReduceWhen::micro_step;
    const PlannedRun planned = plan_shape(other);
    rows.push_back({reduce, other.policy.reduce_each_micro_step == shape.policy.reduce_each_micro_step,
                    limited_bytes(planned), planned.schedule.wire_bytes_per_step(),
                    accumulator_bytes(planned.schedule)});
  }
  return rows;
}

std::int64_t saved_by_freezing(const RunShape& shape, const PlannedRun& planned) {
  RunShape all = shape;
  all.architecture.adapters = {};
  return limited_bytes(plan_shape(all)) - limited_bytes(planned);
}

std::vector<RecomputationRow> recomputation_rows(const RunShape& shape) {
  std::vector<Recomputation> all{{}, {.attention = true}, {.mlp = true}, Recomputation::all_blocks()};
  const Recomputation& chosen = shape.policy.recomputation;
  if (std::ranges::find(all, chosen) == all.end()) all.push_back(chosen);
  std::vector<RecomputationRow> rows;
  for (const Recomputation& one : all) {
    RunShape other = shape;
    other.policy.recomputation = one;
    const PlannedRun planned = plan_shape(other);
    RecomputationRow& row = rows.emplace_back();
    row.recomputation = one;
    row.chosen = one == chosen;
    row.to_allocate = limited_bytes(planned);
    row.bought = rows.front().to_allocate - row.to_allocate;
    row.flops = recomputed_flops(planned.schedule);
    row.share = static_cast<double>(row.flops) /
                static_cast<double>(planned.schedule.model.training_flops() * planned.schedule.policy.accumulation);
  }
  return rows;
}

}  // namespace tessera
