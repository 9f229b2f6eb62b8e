#include <catch2/catch.hpp>

#include "tessera/backend/region.hpp"
#include "tessera/telemetry/process_memory.hpp"

using namespace tessera;

TEST_CASE("resident bytes are those of the pages that were touched") {
  constexpr std::size_t page = 4096;
  const Region region(64 * page);  // too small for huge pages
  CHECK(measured_bytes(region.bytes()) == 0);
  for (const std::size_t touched : {3, 4, 40}) region.data()[touched * page + 17] = std::byte{1};
  CHECK(measured_bytes(region.bytes()) == 3 * page);
  // A range that begins and ends inside pages counts its own bytes of them.
  CHECK(measured_bytes(region.bytes().subspan(3 * page + 100, 2 * page)) == 2 * page - 100);
  CHECK(measured_bytes(region.bytes().subspan(40 * page + 5, 7)) == 7);
  CHECK(measured_bytes(region.bytes().subspan(41 * page, page)) == 0);
  CHECK(measured_bytes({}) == 0);
  const auto* const nowhere = reinterpret_cast<const std::byte*>(page);  // not mapped
  CHECK(measured_bytes({nowhere, page}) == -1);
}
