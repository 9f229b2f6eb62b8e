#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <utility>

#include "tessera/backend/cores.hpp"
#include "tessera/backend/region.hpp"
#include "tessera/base/dtype.hpp"

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

TEST_CASE("the pattern is NaN in every type and shows every touched byte") {
  Region region(4098);
  fill_pattern(region.bytes());
  REQUIRE(touched_bytes(region.bytes(), 0) == 0);
  for (std::size_t at = 0; at + 8 <= 4098; at += 2) {
    float single = 0;
    double twice = 0;
    fp16 half;
    bf16 brain;
    std::memcpy(&single, region.data() + at, 4);
    std::memcpy(&twice, region.data() + at, 8);
    std::memcpy(&half, region.data() + at, 2);
    std::memcpy(&brain, region.data() + at, 2);
    REQUIRE(std::isnan(single));
    REQUIRE(std::isnan(twice));
    REQUIRE(std::isnan(static_cast<float>(half)));
    REQUIRE(std::isnan(static_cast<float>(brain)));
  }
  std::memset(region.data() + 17, 0, 100);
  REQUIRE(touched_bytes(region.bytes(), 0) == kTouchPiece);
  region.data()[4097] = std::byte{0};
  REQUIRE(touched_bytes(region.bytes(), 0) == kTouchPiece + 2);
}
