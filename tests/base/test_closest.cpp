#include <array>
#include <catch2/catch.hpp>

#include "tessera/base/closest.hpp"

using namespace tessera;

TEST_CASE("The nearest name is found within two mistakes, or a third of the letters") {
  constexpr std::array<std::string_view, 5> names{"train", "plan", "verify", "generate", "bench step"};
  CHECK(closest("trian", names) == "train");
  CHECK(closest("plam", names) == "plan");
  CHECK(closest("bench-stepp", names) == "bench step");
  CHECK(closest("generattteee", names) == "generate");  // four of twelve
  CHECK(closest("plantttt", names).empty());            // four of eight
  CHECK(closest("frobnicate", names).empty());
  CHECK(closest("", names).empty());
  CHECK(closest(std::string(65, 'a'), names).empty());
}
