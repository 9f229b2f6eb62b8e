#include <catch2/catch.hpp>
#include <cstring>

#include "tessera/backend/region.hpp"
#include "tessera/telemetry/process_memory.hpp"

using namespace tessera;

TEST_CASE("the memory of this process grows by what it touches") {
  const std::int64_t before = proportional_set_size();
  REQUIRE(before > 0);
  constexpr std::int64_t kMiB = 1 << 20;
  const Region region(64 * kMiB);
  std::memset(region.data(), 1, 64 * kMiB);
  const std::int64_t growth = proportional_set_size() - before;
  // The share of a library's pages changes when another process maps them, too.
  CHECK(growth > 60 * kMiB);
  CHECK(growth < 68 * kMiB);
}
