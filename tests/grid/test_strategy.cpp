#include <catch2/catch.hpp>

#include "tessera/grid/strategy.hpp"

using namespace tessera;

TEST_CASE("a row stands where its enumerator says, and names are told apart") {
  for (const StrategyRules& rules : all_strategies()) {
    REQUIRE(&rules_of(rules.strategy) == &rules);
    for (const StrategyRules& other : all_strategies()) REQUIRE((rules.name == other.name) == (&rules == &other));
  }
  REQUIRE(name_of(Strategy::hsdp_zero2) == "hsdp-zero2");
}

TEST_CASE("the grid of a strategy: what is split over one rank, a group, the world") {
  REQUIRE(grid_for(Strategy::ddp, 8, 4, 0).size(Group::shard) == 1);
  REQUIRE(grid_for(Strategy::zero3, 8, 4, 0).size(Group::shard) == 8);
  REQUIRE(grid_for(Strategy::hsdp, 8, 4, 2).size(Group::shard) == 2);
  REQUIRE(grid_for(Strategy::hsdp_zero2, 8, 4, 0).size(Group::shard) == 4);
  REQUIRE(grid_for(Strategy::hsdp_zero2, 8, 4, 0).size(Group::replica) == 2);
}

TEST_CASE("the most ranks over which a unit may stay after forward") {
  REQUIRE(widest_sub_group(Strategy::zero3, 24, 8, 0) == 8);
  REQUIRE(widest_sub_group(Strategy::zero3, 12, 8, 0) == 4);
  REQUIRE(widest_sub_group(Strategy::hsdp, 24, 8, 6) == 2);
  REQUIRE(widest_sub_group(Strategy::hsdp, 24, 8, 0) == 8);
  REQUIRE(widest_sub_group(Strategy::zero2, 24, 8, 0) == 1);
  REQUIRE(grid_for(Strategy::zero3, 24, 8, 0, 4).size(Group::sub) == 4);
}

TEST_CASE("strategies that leave less on a rank") {
  using enum Strategy;
  const auto more = strategies_that_shard_more;
  REQUIRE(more(ddp) == std::vector{zero1, zero2, zero3});
  REQUIRE(more(zero1) == std::vector{zero2, zero3});
  REQUIRE(more(zero2) == std::vector{zero3});
  REQUIRE(more(zero3).empty());
  REQUIRE(more(hsdp) == std::vector{zero3});
  REQUIRE(more(hsdp_zero2) == std::vector{hsdp, zero2, zero3});
  REQUIRE(more(hsdp_zero1) == std::vector{hsdp_zero2, hsdp, zero1, zero2, zero3});
}
