#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "data/files.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/data/dataset.hpp"

using namespace tessera;
using Catch::Contains;

TEST_CASE("Shares of a mixture hold over any samples, and each source gives its samples in order") {
  std::mt19937_64 draw(20261128);
  std::uniform_real_distribution<double> exponent(-6, 1);
  constexpr std::int64_t window = 10'000, most = window / 1000;
  for (int round = 0; round < 60; ++round) {
    std::vector<double> weights(std::uniform_int_distribution<std::size_t>(2, 12)(draw));
    for (double& weight : weights) weight = std::pow(10, exponent(draw));
    if (round == 0) weights.assign(12, 1);
    if (round == 1) weights.assign({1, 1e-300, 0, 1e300, 1e300});
    const double sum = std::reduce(weights.begin(), weights.end());
    const Mixture mixture(weights);
    const std::int64_t first = std::uniform_int_distribution<std::int64_t>(0, std::int64_t{1} << (round + 2))(draw);
    std::vector<std::int64_t> next, counts(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) next.push_back(mixture.count(i, first));
    CHECK(std::reduce(next.begin(), next.end()) == first);
    for (std::int64_t sample = first; sample < first + window; ++sample) {
      const auto [source, index] = mixture(sample);
      REQUIRE(index == next[source]++);
      ++counts[source];
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      INFO("source " << i << " of " << weights.size() << ", weight " << weights[i] << ", from " << first);
      CHECK(std::abs(static_cast<double>(counts[i]) - window * weights[i] / sum) < most);
      CHECK(mixture.count(i, first + window) == next[i]);
    }
  }
}

TEST_CASE("Samples of unequal length share their tokens, and equal ones are drawn as without their lengths") {
  std::mt19937_64 draw(20261129);
  std::uniform_real_distribution<double> exponent(-2, 0);
  constexpr std::int64_t window = 10'000, longest = 1025;
  for (int round = 0; round < 20; ++round) {
    std::vector<double> weights(std::uniform_int_distribution<std::size_t>(2, 8)(draw));
    for (double& weight : weights) weight = std::pow(10, exponent(draw));
    const double sum = std::reduce(weights.begin(), weights.end());
    // Sources fill their samples differently, and less at some times than at others.
    const auto tokens = [&](std::size_t source, std::int64_t index) {
      if (round == 0) return longest;
      const auto least = static_cast<std::int64_t>(500 + 60 * source);
      return index / 3000 % 2 == 0 ? least + (index * 7919) % (longest - least) : longest - index % 2;
    };
    const Mixture mixture(weights, tokens), by_samples(weights);
    const std::int64_t first = std::uniform_int_distribution<std::int64_t>(0, 100'000)(draw);
    std::vector<std::int64_t> next, held(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) next.push_back(mixture.count(i, first));
    CHECK(std::reduce(next.begin(), next.end()) == first);
    for (std::int64_t sample = first; sample < first + window; ++sample) {
      const auto [source, index] = mixture(sample);
      REQUIRE(index == next[source]++);
      held[source] += tokens(source, index);
      if (round == 0) REQUIRE((by_samples(sample).source == source && by_samples(sample).index == index));
    }
    const auto all = static_cast<double>(std::reduce(held.begin(), held.end()));
    const Mixture again(weights, tokens);  // a resumed run's, which begins later
    for (std::size_t i = 0; i < weights.size(); ++i) {
      INFO("source " << i << " of " << weights.size() << ", weight " << weights[i] << ", from " << first);
      CHECK(std::abs(static_cast<double>(held[i]) / all - weights[i] / sum) < 1e-3);
      CHECK(again.count(i, first + window) == next[i]);
    }
  }
}

namespace {

Dataset mixed(const std::vector<double>& shares, const DataOptions& options, std::int64_t tokens = 500) {
  std::vector<NamedSource> sources;
  sources.push_back({"a", synthetic_text(1000, 200, 1), shares[0]});
  sources.push_back({"b", synthetic_text(tokens, 300, 2), shares[1]});
  return {mix_sources(std::move(sources)), options, 300, 9};
}

}  // namespace

TEST_CASE("A mixture has the samples that its sources have alone, for training and for validation") {
  DataOptions options;
  options.val_fraction = 0.2;
  const Dataset both = mixed({0.75, 0.25}, options), a({synthetic_text(1000, 200, 1), {}}, options, 300, 9),
                b({synthetic_text(500, 300, 2), {}}, options, 300, 9);
  const auto equal = [](const Dataset& data, TokenRange mine, const Dataset& other, TokenRange theirs) {
    std::vector<std::int32_t> here(10), there(10);
    data.source().copy(mine.first, 10, here.data());
    other.source().copy(theirs.first, 10, there.data());
    return mine.count == theirs.count && here == there;
  };
  CHECK(both.split().train.count == 1200);
  CHECK(both.validation_tokens() == 300);
  std::vector<std::int64_t> done(2);
  for (std::int64_t sample = 0; sample < 1000; ++sample) {
    const std::size_t source = both.train().source_of(sample);
    const Dataset& alone = source == 0 ? a : b;
    REQUIRE(equal(both, both.train().ranges(sample)[0], alone, alone.train().ranges(done[source]++)[0]));
  }
  CHECK(done == std::vector<std::int64_t>{750, 250});
  CHECK(both.train().epochs_of(0, 1000) == 750.0 / 88);
  CHECK(both.train().epochs_of(1, 1000) == 250.0 / 44);
  REQUIRE(both.validation().size() == 2);
  for (const ValidationSet& set : both.validation()) {
    const Dataset& alone = set.name == "a" ? a : b;
    const ValidationSet& same = alone.validation()[0];
    REQUIRE(set.samples.samples_per_epoch() == same.samples.samples_per_epoch());
    REQUIRE(equal(both, set.samples.ranges(3)[0], alone, same.samples.ranges(3)[0]));
  }
  CHECK_THROWS_WITH(mixed({0.5, 0.5}, options, 9), Contains("data.source, b: ") && Contains("Use a longer corpus"));
}

TEST_CASE("Other weights, other sources and another order of them are other data") {
  const DataOptions options;
  const auto one = mixed({0.75, 0.25}, options).fingerprint();
  CHECK(one == mixed({0.75, 0.25}, options).fingerprint());
  CHECK(one != mixed({0.7, 0.3}, options).fingerprint());
  CHECK(one != mixed({0.25, 0.75}, options).fingerprint());
  CHECK(one != mixed({0.75, 0.25}, options, 501).fingerprint());
}
