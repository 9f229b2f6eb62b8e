#include "app/plan_rows.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

std::vector<StrategyRow> strategy_rows(const RunShape& shape) {
  std::vector<StrategyRow> rows;
  for (const StrategyRules& rules : all_strategies()) {
    const Strategy strategy = rules.strategy;
    StrategyRow& row = rows.emplace_back();
    row.strategy = strategy;
    row.chosen = strategy == shape.policy.strategy;
    try {
      PlannedRun planned = plan_shape(with_strategy(shape, strategy));
      row.schedule = std::move(planned.schedule);
      row.plan = std::move(planned.plan);
    } catch (const UsageError& error) {
      row.impossible = error.what();
    }
  }
  return rows;
}

std::vector<ReductionRow> reduction_rows(const RunShape& shape) {
  if (shape.policy.accumulation == 1 || shape.world == 1) return {};
  std::vector<ReductionRow> rows;
  for (const ReduceWhen reduce : {ReduceWhen::micro_step, ReduceWhen::step}) {
    RunShape other = shape;
    other.policy.reduce_each_micro_step = reduce == ReduceWhen::micro_step;
    const PlannedRun planned = plan_shape(other);
    rows.push_back({reduce, other.policy.reduce_each_micro_step == shape.policy.reduce_each_micro_step,
                    limited_bytes(planned.schedule, planned.plan), planned.schedule.wire_bytes_per_step(),
                    accumulator_bytes(planned.schedule)});
  }
  return rows;
}

}  // namespace tessera
