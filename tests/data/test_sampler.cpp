#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <set>

#include "data/files.hpp"
#include "tessera/base/math.hpp"
#include "tessera/data/sampler.hpp"

using namespace tessera;
using Catch::Contains;

namespace {
bool is_bijection(const Permutation& permutation, std::int64_t n) {
  std::vector<char> seen(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const auto place = permutation(i);
    if (place < 0 || place >= n || seen[static_cast<std::size_t>(place)]++ != 0) return false;
  }
  return true;
}
}  // namespace

TEST_CASE("A permutation is a bijection of every small n and of large primes") {
  for (std::int64_t n = 1; n <= 2000; ++n) {
    REQUIRE(is_bijection(Permutation(n, 17, n % 3), n));
  }
  for (const std::int64_t n : {65'537, 99'991, 262'147}) REQUIRE(is_bijection(Permutation(n, 1, 0), n));
  for (const std::int64_t n : {2'147'483'647LL, 1'000'000'000'039LL, 1LL << 62}) {
    const Permutation permutation(n, 1, 5);
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < 20'000; ++i) {
      const auto place = permutation(n - 1 - i);
      REQUIRE((place >= 0 && place < n));
      REQUIRE(seen.insert(place).second);
    }
  }
  CHECK_THROWS_AS(Permutation(5, 1, 0)(5), InternalError);
  CHECK_THROWS_AS(Permutation(5, 1, 0)(-1), InternalError);
}

TEST_CASE("Permutations mix: places look uniform and neighbours are torn apart") {
  constexpr std::int64_t n = 10'007;
  const Permutation permutation(n, 3, 0);
  int rising = 0, adjacent = 0, fixed = 0;
  std::vector<int> quarters(16);
  for (std::int64_t i = 0; i + 1 < n; ++i) {
    const auto a = permutation(i), b = permutation(i + 1);
    rising += a < b;
    adjacent += std::abs(a - b) == 1;
    fixed += a == i;
    quarters[static_cast<std::size_t>(i * 4 / n * 4 + a * 4 / n)]++;
  }
  CHECK(std::abs(rising - n / 2) < 200);  // sigma 29 for random permutations (runs: variance n/12)
  CHECK(adjacent < 15);                   // 2 expected
  CHECK(fixed < 10);                      // 1 expected
  for (const int count : quarters) CHECK(std::abs(count - n / 16) < 125);  // sigma 22
}

TEST_CASE("Seeds and epochs give different orders, also of few samples") {
  std::set<std::vector<std::int64_t>> orders;
  for (std::int64_t seed = 0; seed < 4; ++seed) {
    for (std::int64_t epoch = 0; epoch < 50; ++epoch) {
      const Permutation permutation(5, seed, epoch);
      std::vector<std::int64_t> order(5);
      for (std::int64_t i = 0; i < 5; ++i) order[static_cast<std::size_t>(i)] = permutation(i);
      orders.insert(order);
    }
  }
  CHECK(orders.size() > 60);  // of 120
}

TEST_CASE("The order of samples never changes between versions") {
  // A run that is resumed must see the same samples: these numbers may not change.
  const Sampler sampler({100, 701}, 7, SampleOrder::shuffled, 42);
  std::vector<std::int64_t> first;
  for (const std::int64_t i : {0, 1, 2, 99, 100, 101}) first.push_back(sampler.ranges(i).at(0).first);
  CHECK(first == std::vector<std::int64_t>{170, 338, 583, 310, 261, 772});
}

TEST_CASE("Sequential samples share one token and wrap after an epoch") {
  for (std::int64_t length = 1; length <= 9; ++length) {
    for (std::int64_t count = length + 1; count <= 60; ++count) {
      const Sampler sampler({1000, count}, length, SampleOrder::sequential, 1);
      const auto n = sampler.samples_per_epoch();
      REQUIRE(n == (count - 1) / length);
      for (std::int64_t i = 0; i < 3 * n; ++i) {
        REQUIRE(sampler.ranges(i) == TokenRanges{{1000 + i % n * length, length + 1}});
        REQUIRE(i % n * length + length + 1 <= count);
      }
    }
  }
}

TEST_CASE("Each shuffled epoch holds every sample once") {
  for (const std::int64_t count : {9, 10, 17, 1000}) {
    const Sampler sampler({5, count}, 8, SampleOrder::shuffled, 1);
    const auto n = sampler.samples_per_epoch();
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      std::set<std::int64_t> seen;
      for (std::int64_t i = 0; i < n; ++i) seen.insert(sampler.ranges(epoch * n + i).at(0).first);
      REQUIRE(static_cast<std::int64_t>(seen.size()) == n);
      REQUIRE(*seen.begin() == 5);
      REQUIRE(*seen.rbegin() == 5 + (n - 1) * 8);
    }
  }
}

TEST_CASE("A step has the same samples on any world size") {
  constexpr std::int64_t batch = 3, micro_batches = 12;
  for (std::int64_t step = 0; step < 5; ++step) {
    std::vector<std::int64_t> expected(batch * micro_batches);
    std::iota(expected.begin(), expected.end(), step * batch * micro_batches);
    for (const std::int64_t world : {1, 2, 3, 4, 6, 12}) {
      const std::int64_t accumulation = micro_batches / world;
      for (const bool reduce_each : {true, false}) {
        std::vector<std::int64_t> seen;
        for (std::int64_t rank = 0; rank < world; ++rank) {
          for (std::int64_t k = 0; k < accumulation; ++k) {
            const auto number = reduce_each ? k * world + rank : rank * accumulation + k;
            const auto first = first_sample_of(step, micro_batches, number, batch);
            for (std::int64_t i = 0; i < batch; ++i) seen.push_back(first + i);
          }
        }
        std::ranges::sort(seen);
        REQUIRE(seen == expected);
      }
    }
  }
  CHECK_THROWS_AS(first_sample_of(std::int64_t{1} << 62, 4, 0, 1), UsageError);
  CHECK_THROWS_AS(first_sample_of(0, 4, 4, 1), InternalError);
}

TEST_CASE("The split takes the last part, and refuses what is too short") {
  const auto split = split_corpus(1001, 0.1, 16);
  CHECK(split.train == TokenRange{0, 901});
  CHECK(split.validation == TokenRange{901, 100});
  CHECK(split_corpus(17, 0.0, 16).validation.count == 0);
  CHECK_THAT(usage_message([] { split_corpus(16, 0.0, 16); }), Contains("16 tokens for training") && Contains("17"));
  CHECK_THAT(usage_message([] { split_corpus(150, 0.1, 16); }),
             Contains("15 tokens for validation") && Contains("data.val_fraction = 0.1"));
  CHECK_THAT(usage_message([] { split_corpus(150, 0.95, 16); }), Contains("for training"));
}

TEST_CASE("Epochs become samples, and samples steps") {
  const auto steps = [](double epochs, std::int64_t samples_per_epoch, std::int64_t samples_per_step) {
    const auto samples = samples_of_run({.epochs = epochs}, 8, samples_per_epoch);
    return ceil_div(samples.value(), samples_per_step);
  };
  CHECK(steps(1.0, 100, 10) == 10);
  CHECK(steps(1.0, 101, 10) == 11);
  CHECK(steps(0.001, 100, 10) == 1);
  CHECK(steps(2.5, 100, 10) == 25);
  // These products, as written, lie above their integer in doubles.
  CHECK(steps(0.07, 100, 1) == 7);
  CHECK(steps(0.14, 100, 1) == 14);
  CHECK(steps(1.1, 100, 1) == 110);
  CHECK(steps(2.2, 100, 1) == 220);
  CHECK(steps(0.3, 1'000'000'000'000'000'000, 3) == 100'000'000'000'000'000);
  CHECK(steps(0.07, 101, 1) == 8);
  CHECK(steps(5e-324, 100, 1) == 1);
  CHECK_THROWS_AS(steps(1e9, std::int64_t{1} << 62, 1), UsageError);
  CHECK_FALSE(samples_of_run({.steps = 7}, 8, 100).has_value());
}

TEST_CASE("The steps of a number of tokens are the fewest that read so many") {
  std::mt19937_64 random(3);
  const auto drawn = [&](std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(1, most)(random); };
  for (int i = 0; i < 200; ++i) {
    const std::int64_t tokens = drawn(std::int64_t{1} << (i % 40)), seq_len = drawn(4096), per_step = drawn(512);
    const std::int64_t steps = ceil_div(samples_of_run({.tokens = tokens}, seq_len, 0).value(), per_step);
    INFO(tokens << " tokens in samples of " << seq_len << ", " << per_step << " a step");
    CHECK(steps * per_step * seq_len >= tokens);
    CHECK((steps - 1) * per_step * seq_len < tokens);
    // What is left after some steps takes the others.
    const std::int64_t done = steps / 2, samples = samples_of_run({.tokens = tokens}, seq_len, 0).value();
    CHECK(done + ceil_div(samples - done * per_step, per_step) == steps);
  }
}
