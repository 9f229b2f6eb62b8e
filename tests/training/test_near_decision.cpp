#include <catch2/catch.hpp>

#include "tessera/training/near_decision.hpp"

using namespace tessera;

TEST_CASE("copies in memory must fit beside the plan") {
  CHECK(lack_of_memory(40, 60, 100, 40).empty());
  CHECK_THAT(lack_of_memory(40, 60, 99, 40), Catch::Contains("two checkpoints take 40 B and the plan 60 B"));
  CHECK_THAT(lack_of_memory(40, 60, 100, 39), Catch::Contains("/dev/shm has 39 B free"));
}
