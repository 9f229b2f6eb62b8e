#include <catch2/catch.hpp>

#include "tessera/training/stop.hpp"

using namespace tessera;

// At 100 MB/s, half as long again, and half a second for the end. LastTimes are of a step, of evaluations, of a
// checkpoint, and whether one is being written.
TEST_CASE("time is kept for a checkpoint that none was written before") {
  const StopMargin margin(10'000'000'000, 3600);
  REQUIRE(margin.seconds({}) == Approx(150.5));
  REQUIRE(margin.seconds({5, 0, {}, false}) == Approx(160.5));
  REQUIRE(margin.seconds({5, 30, {}, false}) == Approx(190.5));
  REQUIRE(margin.seconds({0, 0, {}, true}) == Approx(300.5));
}

TEST_CASE("what was measured counts, whatever was estimated") {
  const StopMargin margin(10'000'000'000, 3600);
  REQUIRE(margin.seconds({0, 0, 10.0, false}) == Approx(15.5));
  REQUIRE(margin.seconds({0, 0, 10.0, true}) == Approx(30.5));
  REQUIRE(margin.seconds({0, 0, 2000.0, false}) == Approx(3000.5));
}

TEST_CASE("an estimate leaves half of the time for steps") {
  REQUIRE(StopMargin(10'000'000'000, 200).seconds({}) == Approx(100.5));
  REQUIRE(StopMargin(10'000'000'000, 200).seconds({0, 0, {}, true}) == Approx(100.5));
  REQUIRE(StopMargin(10'000'000'000, -5).seconds({}) == Approx(0.5));
}
