#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "tessera/fit/search.hpp"

using namespace tessera;

TEST_CASE("The last that fits is next to the border, whichever side it is on, after few questions") {
  std::mt19937 draw(7);
  for (int i = 0; i < 300; ++i) {
    const auto first = static_cast<std::int64_t>(draw() % 1000), end = static_cast<std::int64_t>(draw() % 1000);
    if (first == end) continue;
    const std::int64_t distance = std::abs(end - first), step = end > first ? 1 : -1;
    const std::int64_t border = first + step * static_cast<std::int64_t>(draw() % static_cast<unsigned>(distance));
    int asked = 0;
    const auto fits = [&](std::int64_t at) { return ++asked, step * at <= step * border; };
    INFO(first << " to " << end << ", " << border);
    CHECK(last_that_fits(first, end, fits) == border);
    CHECK(asked <= 10);
  }
}

TEST_CASE("Combinations come in order, each once, until one ends them") {
  using Numbers = std::vector<int>;
  std::vector<Numbers> seen;
  std::size_t most = 100;
  const auto choices = [](const Numbers& now, std::size_t dimension) {
    std::vector<Numbers> out;
    for (int i = 0; i < (dimension == 1 ? 3 : 2); ++i) {
      out.push_back(now);
      out.back().push_back(i);
    }
    return out;
  };
  const auto use = [&](const Numbers& one) { return seen.push_back(one), seen.size() < most; };
  CHECK(each_combination(Numbers(), 3, choices, use));
  REQUIRE(seen.size() == 12);
  CHECK(std::ranges::is_sorted(seen));
  CHECK((seen[0] == Numbers{0, 0, 0} && seen[3] == Numbers{0, 1, 1}));
  seen.clear();
  most = 5;
  CHECK_FALSE(each_combination(Numbers(), 3, choices, use));
  CHECK(seen.size() == 5);
}
