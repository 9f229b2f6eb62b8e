#include <catch2/catch.hpp>

#include "commands/plan_rows.hpp"
#include "tessera/fit/decide_fit.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

RunShape shape_of(std::int64_t world, std::int64_t accumulation) {
  RunShape shape;
  shape.architecture = preset("nano");
  shape.micro_batch = 2;
  shape.sequence = 64;
  shape.world = shape.ranks_per_node = world;
  shape.policy.accumulation = accumulation;
  shape.policy.reduce_each_micro_step = true;
  return shape;
}

}  // namespace

TEST_CASE("the run is planned under every strategy, in the order of the strategies; one is the chosen one") {
  RunShape shape = shape_of(4, 1);
  shape.policy.strategy = Strategy::zero2;
  shape.group_size = 2;
  const auto rows = strategy_rows(shape, {});
  REQUIRE(rows.size() == all_strategies().size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    INFO(name_of(rows[i].strategy));
    CHECK(rows[i].strategy == all_strategies()[i].strategy);
    CHECK(rows[i].chosen == (rows[i].strategy == Strategy::zero2));
    if (!rows[i].impossible.empty()) continue;
    CHECK(rows[i].schedule.policy.strategy == rows[i].strategy);
    CHECK(rows[i].plan.total() == plan_shape(with_strategy(shape, rows[i].strategy)).plan.total());
  }
}

TEST_CASE("on one rank in 16 bits every strategy keeps the copies that its run keeps") {
  for (const std::int64_t memory : {std::int64_t{0}, std::int64_t{1000}}) {
    RunShape shape = shape_of(1, 1);
    shape.policy.compute = DType::bf16;
    shape.policy.strategy = Strategy::zero3;
    Options options;
    options.plan.memory = memory;
    const auto as_run = [&](Strategy strategy) {
      return with_copies_kept(with_strategy(shape, strategy), options, [&] { return FitLimits{memory}; });
    };
    const RunShape run = as_run(Strategy::zero3);
    REQUIRE(run.policy.keeps_copies == (memory == 0));
    for (const StrategyRow& row : strategy_rows(run, options)) {
      INFO(name_of(row.strategy) << " in " << memory);
      CHECK(row.plan.total() == plan_shape(as_run(row.strategy)).plan.total());
    }
  }
}

TEST_CASE("a strategy that is impossible says why, and the others are there all the same") {
  RunShape shape = shape_of(4, 1);
  shape.group_size = 3;  // no two replicas of 3 in 4 ranks
  int impossible = 0;
  for (const StrategyRow& row : strategy_rows(shape, {})) {
    INFO(name_of(row.strategy));
    if (rules_of(row.strategy).is_hybrid()) {
      CHECK_THAT(row.impossible, Contains("shard.group_size"));
      CHECK(row.schedule.operations.empty());
      ++impossible;
    } else {
      CHECK_FALSE((row.impossible.empty() && row.schedule.operations.empty()));
    }
  }
  CHECK(impossible > 0);
}

TEST_CASE("both settings of shard.reduce are planned where they differ") {
  CHECK(reduction_rows(shape_of(4, 1)).empty());
  CHECK(reduction_rows(shape_of(1, 4)).empty());
  for (const bool each : {true, false}) {
    RunShape shape = shape_of(4, 4);
    shape.policy.strategy = Strategy::zero1;
    shape.policy.reduce_each_micro_step = each;
    const auto rows = reduction_rows(shape);
    REQUIRE(rows.size() == 2);
    CHECK((rows[0].reduce == ReduceWhen::micro_step && rows[0].chosen == each));
    CHECK((rows[1].reduce == ReduceWhen::step && rows[1].chosen == !each));
    CHECK(rows[0].wire_bytes > rows[1].wire_bytes);      // a reduction a micro-step
    CHECK(rows[0].accumulators < rows[1].accumulators);  // sums of a slice, not of the whole gradient
    const PlannedRun planned = plan_shape(shape);
    CHECK(rows[each ? 0 : 1].to_allocate == limited_bytes(planned.schedule, planned.plan));
    CHECK(rows[each ? 0 : 1].wire_bytes == planned.schedule.wire_bytes_per_step());
  }
}

TEST_CASE("recomputation is planned as nothing, by halves, whole, and as chosen") {
  RunShape shape = shape_of(2, 3);
  auto rows = recomputation_rows(shape);
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].chosen);
  for (const RecomputationRow& row : rows) {
    INFO(describe(row.recomputation));
    shape.policy.recomputation = row.recomputation;
    const PlannedRun planned = plan_shape(shape);
    CHECK(row.to_allocate == limited_bytes(planned.schedule, planned.plan));
    CHECK(row.bought == rows[0].to_allocate - row.to_allocate);
    CHECK((row.flops > 0) == row.recomputation.is_any());
    CHECK(row.share ==
          static_cast<double>(row.flops) / static_cast<double>(3 * planned.schedule.model.training_flops()));
  }
  shape.policy.recomputation = {true, false, 1, 2, {}};
  rows = recomputation_rows(shape);
  REQUIRE(rows.size() == 5);
  CHECK((rows[4].chosen && !rows[0].chosen));
  CHECK(rows[4].flops * 2 == rows[1].flops);
}
