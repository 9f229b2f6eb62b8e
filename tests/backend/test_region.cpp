#include <catch2/catch.hpp>
#include <utility>

#include "tessera/backend/region.hpp"

using namespace tessera;

TEST_CASE("a region is zeroed, aligned and moves") {
  Region region(100'003);
  REQUIRE(region.size() == 100'003);
  REQUIRE(reinterpret_cast<std::uintptr_t>(region.data()) % 4096 == 0);
  for (const std::byte byte : region.bytes()) REQUIRE(byte == std::byte{0});
  std::byte* const data = region.data();
  Region moved = std::move(region);
  REQUIRE(moved.data() == data);
  REQUIRE(Region(0).data() == nullptr);
  Region other(5);
  other = std::move(moved);
  REQUIRE(other.data() == data);
}
