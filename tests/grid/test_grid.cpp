#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/grid/grid.hpp"

using namespace tessera;

TEST_CASE("groups partition the world, and a rank finds itself where its index says") {
  for (const std::int64_t world : {1, 2, 3, 4, 5, 6, 8, 12, 15, 24}) {
    for (std::int64_t per_node = 1; per_node <= world; ++per_node) {
      for (std::int64_t group = 1; group <= world; ++group) {
        if (world % per_node != 0 || world % group != 0) continue;
        const std::int64_t widest = std::gcd(per_node, group);
        const ProcessGrid grid(world, per_node, group, widest % 2 == 0 ? widest / 2 : widest);
        REQUIRE(grid.size(Group::replica) * grid.size(Group::shard) == world);
        for (const Group kind : {Group::self, Group::world, Group::shard, Group::replica, Group::node, Group::sub}) {
          bool inside = true;
          for (std::int64_t rank = 0; rank < world; ++rank) {
            const auto members = grid.members(kind, rank);
            REQUIRE(static_cast<std::int64_t>(members.size()) == grid.size(kind));
            REQUIRE(std::is_sorted(members.begin(), members.end()));
            REQUIRE(std::count(members.begin(), members.end(), rank) == 1);
            for (const auto member : members) {
              REQUIRE(grid.members(kind, member) == members);
              if (member / per_node != rank / per_node) inside = false;
            }
            REQUIRE(members[static_cast<std::size_t>(grid.index_in(kind, rank))] == rank);
          }
          REQUIRE(grid.within_node(kind) == inside);
        }
      }
    }
  }
}

TEST_CASE("the design's grid: contiguous shard groups, strided replica groups") {
  const ProcessGrid grid(8, 4, 2);
  REQUIRE(grid.members(Group::shard, 5) == std::vector<std::int64_t>{4, 5});
  REQUIRE(grid.members(Group::replica, 5) == std::vector<std::int64_t>{1, 3, 5, 7});
  REQUIRE(grid.members(Group::node, 5) == std::vector<std::int64_t>{4, 5, 6, 7});
  REQUIRE(grid.within_node(Group::shard));
  REQUIRE_FALSE(grid.within_node(Group::replica));
}

TEST_CASE("a sub-group lies inside a shard group and inside a node") {
  const ProcessGrid grid(16, 8, 4, 2);
  REQUIRE(grid.members(Group::sub, 5) == std::vector<std::int64_t>{4, 5});
  REQUIRE(grid.index_in(Group::sub, 5) == 1);
  REQUIRE(ProcessGrid(16, 8, 4).size(Group::sub) == 1);
  REQUIRE_THROWS_WITH(ProcessGrid(16, 2, 4, 4),
                      Catch::Equals("shard.reshard_after_forward = 4 does not divide the 4 ranks of a shard group and "
                                    "the 2 of a node. Use true, false or 2."));
  REQUIRE_THROWS_AS(ProcessGrid(16, 8, 4, 8), UsageError);
  const ProcessGrid smaller_nodes = ProcessGrid(16, 8, 4, 4).on_nodes_of(2);
  REQUIRE(smaller_nodes.ranks_per_node() == 2);
  REQUIRE(smaller_nodes.size(Group::sub) == 4);
  REQUIRE_FALSE(smaller_nodes.within_node(Group::sub));
}

TEST_CASE("sizes that do not divide are refused by name") {
  REQUIRE_THROWS_WITH(ProcessGrid(6, 1, 4), Catch::Contains("shard.group_size = 4") && Catch::Contains("6"));
  REQUIRE_THROWS_AS(ProcessGrid(6, 1, 0), UsageError);
  REQUIRE_THROWS_WITH(ProcessGrid(6, 4, 1), Catch::Contains("grid.ranks_per_node = 4"));
  REQUIRE_THROWS_AS(ProcessGrid(6, 0, 1), UsageError);
  REQUIRE_THROWS_AS(ProcessGrid(6, 12, 1), UsageError);
}

TEST_CASE("every micro-batch is assigned once, in the order of the sum") {
  for (const std::int64_t world : {1, 2, 3, 4, 6, 8}) {
    for (std::int64_t group = 1; group <= world; ++group) {
      if (world % group != 0) continue;
      const ProcessGrid grid(world, 1, group);
      for (const std::int64_t accumulation : {1, 2, 3, 5}) {
        for (const bool each : {true, false}) {
          std::set<std::int64_t> seen;
          for (std::int64_t rank = 0; rank < world; ++rank) {
            for (std::int64_t k = 0; k < accumulation; ++k) {
              const auto index = MicroBatchAssignment{Group::shard, each}.micro_batch(grid, accumulation, rank, k);
              REQUIRE(index >= 0);
              REQUIRE(index < world * accumulation);
              seen.insert(index);
            }
          }
          REQUIRE(static_cast<std::int64_t>(seen.size()) == world * accumulation);
        }
      }
    }
  }
  const ProcessGrid plain(4, 1, 4), hybrid(4, 1, 2), whole(4, 1, 1);
  const MicroBatchAssignment each{Group::shard, true}, once{Group::shard, false};
  REQUIRE(each.micro_batch(plain, 3, 1, 2) == 2 * 4 + 1);
  REQUIRE(once.micro_batch(plain, 3, 1, 2) == 1 * 3 + 2);
  REQUIRE(each.micro_batch(hybrid, 3, 3, 2) == 1 * 3 * 2 + 2 * 2 + 1);
  REQUIRE(once.micro_batch(hybrid, 3, 3, 2) == 1 * 3 * 2 + 1 * 3 + 2);
  REQUIRE(MicroBatchAssignment{Group::world, true}.micro_batch(whole, 3, 1, 2) == 2 * 4 + 1);
}
