// Prices between the points of a grid, and beyond them.

#include <catch2/catch.hpp>
#include <cmath>

#include "tessera/simulate/cluster.hpp"

using namespace tessera;

namespace {

WorkSize size_of(std::initializer_list<std::pair<PriceAxis, double>> quantities) {
  WorkSize size{};
  for (const auto& [axis, value] : quantities) size[static_cast<std::size_t>(axis)] = value;
  return size;
}

}  // namespace

TEST_CASE("a price at a point of its grid is what was measured there") {
  const PriceTable table({{PriceAxis::tokens, {64, 256}}, {PriceAxis::in, {8, 16, 64}}}, {1, 2, 7, 3, 5, 11});
  const double seconds[2][3] = {{1, 2, 7}, {3, 5, 11}};
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      const WorkSize size =
          size_of({{PriceAxis::tokens, table.axes()[0].values[i]}, {PriceAxis::in, table.axes()[1].values[j]}});
      CHECK(table.seconds(size) == Approx(seconds[i][j]));
    }
  }
}

TEST_CASE("between points the logarithm of a price is linear in the logarithms of the sizes") {
  const PriceTable line({{PriceAxis::bytes, {100, 10000}}}, {1e-6, 4e-6});
  CHECK(line.seconds(size_of({{PriceAxis::bytes, 1000}})) == Approx(2e-6));
  const PriceTable grid({{PriceAxis::tokens, {1, 4}}, {PriceAxis::in, {1, 4}}}, {1, 2, 8, 64});
  const double middle = grid.seconds(size_of({{PriceAxis::tokens, 2}, {PriceAxis::in, 2}}));
  CHECK(middle == Approx(std::pow(1.0 * 2 * 8 * 64, 0.25)));
}

TEST_CASE("beyond its ends a price goes on as between the last two points") {
  const PriceTable table({{PriceAxis::bytes, {10, 100, 1000}}}, {5, 10, 100});
  CHECK(table.seconds(size_of({{PriceAxis::bytes, 10000}})) == Approx(1000));
  CHECK(table.seconds(size_of({{PriceAxis::bytes, 1}})) == Approx(2.5));
  CHECK(table.seconds(size_of({{PriceAxis::bytes, 0}})) < 1e-6);  // and does not fail on no work
}

TEST_CASE("beyond the ends of several axes each goes on by itself, and no price falls with its size") {
  // A constant and a product: steep where all sizes are large, flat where one is small.
  const auto time = [](double x, double y, double z) { return 1e-5 + 1e-9 * x * y * z; };
  std::vector<double> seconds;
  const std::vector<double> points = {16, 64, 256};
  for (const double x : points)
    for (const double y : points)
      for (const double z : points) seconds.push_back(time(x, y, z));
  const PriceTable table({{PriceAxis::tokens, points}, {PriceAxis::in, points}, {PriceAxis::out, points}}, seconds);
  const auto at = [&](double x, double y, double z) {
    return table.seconds(size_of({{PriceAxis::tokens, x}, {PriceAxis::in, y}, {PriceAxis::out, z}}));
  };
  CHECK(at(2, 2, 2) < time(16, 16, 16));
  CHECK(at(2, 2, 2) > 0.05 * time(2, 2, 2));
  CHECK(at(4096, 4096, 4096) == Approx(time(4096, 4096, 4096)).epsilon(0.05));
  CHECK(at(4096, 2, 4096) == Approx(time(4096, 2, 4096)).epsilon(0.9));
  const PriceTable noisy({{PriceAxis::bytes, {1000, 2000}}}, {2e-6, 1e-6});
  CHECK(noisy.seconds(size_of({{PriceAxis::bytes, 1e6}})) == Approx(1e-6));
}

TEST_CASE("an axis with one point makes a price proportional, but for ranks") {
  const PriceTable table({{PriceAxis::flops, {2}}, {PriceAxis::bytes, {10, 100}}}, {3, 30});
  CHECK(table.seconds(size_of({{PriceAxis::flops, 2}, {PriceAxis::bytes, 100}})) == Approx(30));
  CHECK(table.seconds(size_of({{PriceAxis::flops, 8}, {PriceAxis::bytes, 100}})) == Approx(120));
  const PriceTable of_two({{PriceAxis::ranks, {2}}, {PriceAxis::bytes, {1000}}}, {3e-6});
  CHECK(of_two.seconds(size_of({{PriceAxis::ranks, 8}, {PriceAxis::bytes, 2000}})) == Approx(6e-6));
}

TEST_CASE("a price reads the quantities of its own axes alone") {
  const PriceTable table({{PriceAxis::flops, {1e9, 1e12}}}, {1e-3, 1});
  CHECK(table.seconds(size_of({{PriceAxis::flops, 1e10}, {PriceAxis::bytes, 1e9}, {PriceAxis::tokens, 7}})) ==
        Approx(1e-2));
}
