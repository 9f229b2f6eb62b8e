#include <catch2/catch.hpp>
#include <set>

#include "tessera/comm/deal.hpp"

using namespace tessera;

TEST_CASE("every micro-batch is dealt once, in the order of the sum") {
  for (const std::int64_t world : {1, 2, 3, 4, 6, 8}) {
    for (std::int64_t group = 1; group <= world; ++group) {
      if (world % group != 0) continue;
      const ProcessGrid grid(world, 1, group);
      for (const std::int64_t accumulation : {1, 2, 3, 5}) {
        for (const ReduceWhen when : {ReduceWhen::micro_step, ReduceWhen::step}) {
          std::set<std::int64_t> seen;
          for (std::int64_t rank = 0; rank < world; ++rank) {
            for (std::int64_t k = 0; k < accumulation; ++k) {
              const auto index = micro_batch_index(grid, when, accumulation, rank, k);
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
  const ProcessGrid plain(4, 1, 4), hybrid(4, 1, 2);
  REQUIRE(micro_batch_index(plain, ReduceWhen::micro_step, 3, 1, 2) == 2 * 4 + 1);
  REQUIRE(micro_batch_index(plain, ReduceWhen::step, 3, 1, 2) == 1 * 3 + 2);
  REQUIRE(micro_batch_index(hybrid, ReduceWhen::micro_step, 3, 3, 2) == 1 * 3 * 2 + 2 * 2 + 1);
  REQUIRE(micro_batch_index(hybrid, ReduceWhen::step, 3, 3, 2) == 1 * 3 * 2 + 1 * 3 + 2);
}
