#include <catch2/catch.hpp>
#include <vector>

#include "tessera/comm/exchange_run.hpp"

using namespace tessera;

TEST_CASE("what a member sends of an exchange leaves out what it keeps") {
  const std::vector<ExchangeRun> runs{{0, 1, 0, 0, 10}, {0, 0, 10, 0, 100}, {2, 1, 0, 10, 7}, {0, 2, 110, 0, 3}};
  CHECK(elements_sent(runs, 0) == 13);
  CHECK(elements_sent(runs, 1) == 0);
  CHECK(elements_sent(runs, 2) == 7);
  CHECK(most_elements_sent(runs) == 13);
  CHECK(most_elements_sent({}) == 0);
}
