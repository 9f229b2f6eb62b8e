#include <catch2/catch.hpp>
#include <random>

#include "tessera/training/recent_spread.hpp"

using namespace tessera;

TEST_CASE("A value is far out only beyond the spread of those before it") {
  std::mt19937 random(7);
  std::lognormal_distribution<double> noise(0.0, 0.2);
  RecentSpread spread;
  for (int i = 0; i < RecentSpread::kSteps; ++i) CHECK(spread.distance(i == 40 ? 1e6 : 2 * noise(random)) == 0);
  for (int i = 0; i < 20000; ++i) {
    INFO(i);
    const double scale = 2 / (1 + i / 500.0);  // a loss falls
    if (i % 1000 == 999) {  // an odd value, above or below, and the ones after it are judged as if it were not there
      CHECK(spread.distance(scale * (i % 2000 == 999 ? 30.0 : 1 / 30.0)) > RecentSpread::kFar);
      CHECK(spread.median() == Approx(scale).epsilon(0.2));
    }
    REQUIRE(spread.distance(scale * noise(random)) < RecentSpread::kFar);
  }
}

TEST_CASE("Values that hardly differ are not far from each other, and those without a logarithm do not count") {
  RecentSpread spread;
  for (int i = 0; i < RecentSpread::kSteps; ++i) CHECK(spread.distance(1.0) == 0);
  for (const double odd : {0.0, -1.0, std::nan(""), HUGE_VAL}) CHECK(spread.distance(odd) == 0);
  CHECK(spread.distance(1.05) < RecentSpread::kFar);
  CHECK(spread.distance(1.2) > RecentSpread::kFar);
  CHECK(spread.median() == Approx(1.0));
}
