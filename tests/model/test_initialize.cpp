#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>
#include <random>

#include "tessera/base/counter_rng.hpp"
#include "tessera/base/error.hpp"
#include "tessera/model/initialize.hpp"

using namespace tessera;

namespace {

ParameterTensor tensor(std::int64_t elements, Initialization initialization, double deviation) {
  ParameterTensor t;
  t.name = "t", t.shape = {elements}, t.elements = elements;
  t.initialization = initialization, t.standard_deviation = deviation;
  return t;
}

std::vector<float> slice(const ParameterTensor& t, TensorId id, std::uint64_t seed, std::int64_t first,
                         std::int64_t n) {
  std::vector<float> out(static_cast<std::size_t>(n), NAN);
  initialize_slice(t, id, seed, first, out);
  return out;
}

/// The standard normal of one element, by itself.
float normal_at(std::uint64_t seed, std::uint32_t stream, std::uint64_t index) {
  const auto bits = philox(seed, RandomUse::initialization, stream, index / 4);
  const std::uint64_t pair = (index % 4) / 2;
  const double u1 = (bits[2 * pair] + 1.0) * 0x1p-32, u2 = bits[2 * pair + 1] * 0x1p-32;
  const double radius = std::sqrt(-2.0 * std::log(u1)), angle = 2.0 * std::numbers::pi * u2;
  return static_cast<float>(radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle)));
}

}  // namespace

TEST_CASE("any slice has the values of the whole", "[initialize]") {
  const ParameterTensor t = tensor(10007, Initialization::normal, 0.02);
  const std::vector<float> whole = slice(t, TensorId(5), 42, 0, t.elements);
  std::mt19937 generator(1);
  for (int i = 0; i < 300; ++i) {
    const auto first = static_cast<std::int64_t>(generator() % 10007);
    const auto n = static_cast<std::int64_t>(generator() % 40) % (t.elements - first + 1);
    const std::vector<float> part = slice(t, TensorId(5), 42, first, n);
    CHECK(std::equal(part.begin(), part.end(), whole.begin() + first));
  }
  const ParameterTensor long_one = tensor(300001, Initialization::normal, 0.02);
  const std::vector<float> values = slice(long_one, TensorId(5), 42, 0, long_one.elements);
  std::int64_t different = 0;
  for (std::size_t i = 0; i < values.size(); ++i) different += values[i] != 0.02f * normal_at(42, 5, i);
  CHECK(different == 0);
  CHECK(slice(t, TensorId(6), 42, 0, 100) != slice(t, TensorId(5), 42, 0, 100));
  CHECK(slice(t, TensorId(5), 43, 0, 100) != slice(t, TensorId(5), 42, 0, 100));
}

TEST_CASE("normal values have the deviation that was asked for; gains are one, biases zero", "[initialize]") {
  const std::vector<float> v = slice(tensor(200000, Initialization::normal, 0.02), TensorId(1), 7, 0, 200000);
  double mean = 0, square = 0;
  for (const float x : v) mean += x, square += static_cast<double>(x) * x;
  mean /= 200000, square /= 200000;
  CHECK(std::abs(mean) < 4 * 0.02 / std::sqrt(200000.0));
  CHECK(std::sqrt(square) == Approx(0.02).epsilon(0.01));
  for (const float x : slice(tensor(100, Initialization::one, 0), TensorId(1), 7, 3, 90)) CHECK(x == 1.0f);
  for (const float x : slice(tensor(100, Initialization::zero, 0), TensorId(1), 7, 3, 90)) CHECK(x == 0.0f);
  CHECK_THROWS_AS(slice(tensor(100, Initialization::zero, 0), TensorId(1), 7, 50, 51), InternalError);
}
