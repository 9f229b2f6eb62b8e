#include <catch2/catch.hpp>
#include <cstring>

#include "tessera/backend/region.hpp"
#include "tessera/telemetry/process_memory.hpp"

using namespace tessera;

TEST_CASE("the memory of this process grows by what it touches") {
  const std::int64_t before = proportional_set_size();
  REQUIRE(before > 0);
  constexpr std::int64_t kMiB = 1 << 20;
  const Region region(8 * kMiB);
  std::memset(region.data(), 1, 8 * kMiB);
  const std::int64_t growth = proportional_set_size() - before;
  CHECK(growth >= 8 * kMiB);
  CHECK(growth < 9 * kMiB);
}
