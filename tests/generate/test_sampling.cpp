#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/generate/sampling.hpp"

using namespace tessera;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

SamplingRules rules(double temperature, std::int64_t top_k = 0, double top_p = 1, std::uint64_t seed = 7) {
  return {temperature, top_k, top_p, seed};
}

/// Returns how often each id was drawn.
std::vector<int> draws(const SamplingRules& rules, const std::vector<float>& logits, int count) {
  TokenSampler sampler(rules);
  std::vector<int> counts(logits.size(), 0);
  for (int i = 0; i < count; ++i) ++counts[static_cast<std::size_t>(sampler.choose(logits, i % 10, i / 10))];
  return counts;
}

std::set<std::size_t> drawn(const std::vector<int>& counts) {
  std::set<std::size_t> ids;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) ids.insert(i);
  }
  return ids;
}

double chi_square(const std::vector<int>& counts, const std::vector<double>& probabilities) {
  double total = 0, sum = 0;
  for (const int c : counts) total += c;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = total * probabilities[i];
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> p;
  double sum = 0;
  for (const float x : logits) sum += p.emplace_back(std::exp(x / temperature));
  for (double& x : p) x /= sum;
  return p;
}

}  // namespace

TEST_CASE("temperature 0 takes the largest logit, and of equal ones the lowest id") {
  TokenSampler sampler(rules(0));
  CHECK(sampler.choose(std::vector<float>{-1, 3, 2, 3}, 0, 0) == 1);
  CHECK(sampler.choose(std::vector<float>{5, 5, 5}, 0, 0) == 0);
  CHECK(sampler.choose(std::vector<float>{-kInfinity, -4}, 0, 0) == 1);
}

TEST_CASE("draws follow the softmax at every temperature") {
  const std::vector<float> logits{0.5f, -1.0f, 2.0f, 0.0f, 1.0f, -2.0f};
  for (const double temperature : {0.5, 1.0, 2.0}) {
    INFO(temperature);
    // 99.9% quantile of chi-square with 5 degrees of freedom.
    CHECK(chi_square(draws(rules(temperature), logits, 20000), softmax(logits, temperature)) < 20.5);
  }
}

TEST_CASE("top_k leaves the largest logits, of equal ones the lowest ids") {
  const std::vector<float> logits{1, 3, 2, 3, 2};
  CHECK(drawn(draws(rules(1, 1), logits, 300)) == std::set<std::size_t>{1});
  CHECK(drawn(draws(rules(1, 3), logits, 300)) == std::set<std::size_t>{1, 2, 3});
  CHECK(drawn(draws(rules(1, 100), logits, 3000)) == std::set<std::size_t>{0, 1, 2, 3, 4});
}

TEST_CASE("top_p leaves the fewest tokens that reach the probability") {
  // Probabilities 0.5, 0.25, 0.125, 0.125.
  const float half = std::log(2.0f);
  const std::vector<float> logits{-half, 0, -2 * half, -2 * half};
  CHECK(drawn(draws(rules(1, 0, 0.4), logits, 300)) == std::set<std::size_t>{1});
  CHECK(drawn(draws(rules(1, 0, 0.6), logits, 300)) == std::set<std::size_t>{0, 1});
  CHECK(drawn(draws(rules(1, 0, 0.8), logits, 300)) == std::set<std::size_t>{0, 1, 2});
  CHECK(drawn(draws(rules(1, 0, 1e-9), logits, 300)) == std::set<std::size_t>{1});
  // The tokens that are left keep their proportions.
  const auto counts = draws(rules(1, 0, 0.6), logits, 9000);
  CHECK(chi_square({counts[1], counts[0]}, {2.0 / 3, 1.0 / 3}) < 10.8);
  // top_k comes first: of 0.5 and 0.25 the first is two thirds.
  CHECK(drawn(draws(rules(1, 2, 0.65), logits, 300)) == std::set<std::size_t>{1});
  CHECK(drawn(draws(rules(1, 2, 0.7), logits, 300)) == std::set<std::size_t>{0, 1});
}

TEST_CASE("a draw depends on seed, prompt and position, not on the draws before it") {
  const std::vector<float> logits(50, 0.0f);
  TokenSampler one(rules(1)), other(rules(1)), seeded(rules(1, 0, 1, 8));
  one.choose(std::vector<float>{1, 2, 3}, 4, 4);
  std::array<int, 3> differ{};
  for (int i = 0; i < 40; ++i) {
    const std::int32_t token = one.choose(logits, 3, i);
    CHECK(token == other.choose(logits, 3, i));
    differ[0] += seeded.choose(logits, 3, i) != token;
    differ[1] += other.choose(logits, 2, i) != token;
    differ[2] += other.choose(logits, 3, i + 100) != token;
  }
  for (const int count : differ) CHECK(count > 20);
}

TEST_CASE("logits that are no numbers are a numerical failure") {
  TokenSampler sampler(rules(1)), greedy(rules(0));
  for (const float bad : {std::nanf(""), kInfinity}) {
    CHECK_THROWS_AS(sampler.choose(std::vector<float>{1, bad, 2}, 0, 0), NumericalError);
    CHECK_THROWS_AS(greedy.choose(std::vector<float>{1, bad, 2}, 0, 0), NumericalError);
  }
  CHECK_THROWS_AS(greedy.choose(std::vector<float>{-kInfinity, -kInfinity}, 0, 0), NumericalError);
}
