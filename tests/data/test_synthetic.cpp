#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>

#include "data/files.hpp"
#include "tessera/data/corpus.hpp"

using namespace tessera;

TEST_CASE("Synthetic text depends on seed and position only") {
  const auto a = synthetic_text(10'000, 50'000, 1);
  const auto longer = synthetic_text(20'001, 50'000, 1);
  const auto other = synthetic_text(10'000, 50'000, 2);
  const auto all = some_of(*a, 0, 10'000);
  CHECK(all == some_of(*longer, 0, 10'000));
  CHECK(all != some_of(*other, 0, 10'000));
  CHECK(fingerprint(*a) != fingerprint(*other));
  CHECK(fingerprint(*a) != fingerprint(*longer));
  std::mt19937 random(9);
  for (int i = 0; i < 500; ++i) {
    const std::int64_t first = random() % 10'000, count = random() % (10'000 - first + 1);
    REQUIRE(some_of(*a, first, count) == std::vector<std::int32_t>(all.begin() + first, all.begin() + first + count));
  }
  for (const std::int64_t vocab : {1, 2, 3, 63, 64, 65}) {
    const auto small = synthetic_text(3000, vocab, 5);
    CHECK(small->id_bound() == vocab);
    for (const auto token : some_of(*small, 0, 3000)) REQUIRE((token >= 0 && token < small->id_bound()));
  }
}

TEST_CASE("Synthetic text uses the whole vocabulary, by Zipf's law where a token follows nothing") {
  constexpr std::int64_t vocab = 1000, count = 2'000'000;
  std::vector<double> seen(vocab);
  for (const auto token : some_of(*synthetic_text(count, vocab, 3), 0, count))
    seen[static_cast<std::size_t>(token)] += 1;
  CHECK(std::ranges::count(seen, 0.0) == 0);
  CHECK(seen[0] > 20 * seen[vocab - 1]);
  // By 1 / rank half of all tokens are among the first sqrt(vocab) or so, whatever the successors are.
  double first = 0;
  for (std::size_t k = 0; k < 31; ++k) first += seen[k];
  CHECK(first > 0.35 * count);
  CHECK(first < 0.75 * count);
}

TEST_CASE("Synthetic text can be learned: knowing two tokens leaves little") {
  constexpr std::int64_t count = 2'000'000;
  const auto tokens = some_of(*synthetic_text(count, 64, 1), 0, count);
  const auto conditional_entropy = [&](int order) {
    std::map<std::int64_t, std::map<std::int32_t, double>> seen;
    for (std::size_t i = 2; i < tokens.size(); ++i) {
      if (i % 256 < 2) continue;  // the start of a piece follows nothing
      std::int64_t context = 0;
      for (int k = order; k >= 1; --k) context = context * 64 + tokens[i - static_cast<std::size_t>(k)];
      seen[context][tokens[i]] += 1.0;
    }
    double nats = 0.0, total = 0.0;
    for (const auto& [context, next] : seen) {
      double sum = 0.0;
      for (const auto& [token, n] : next) sum += n;
      for (const auto& [token, n] : next) nats -= n * std::log(n / sum);
      total += sum;
    }
    return nats / total;
  };
  const double none = conditional_entropy(0), one = conditional_entropy(1), two = conditional_entropy(2);
  CAPTURE(none, one, two);
  CHECK(none > 2.5);
  CHECK(one < 1.8);
  CHECK(two < one - 0.04);  // 0.08 less; 0.01, by chance, if the token before said nothing
  CHECK(two < 1.52);        // (30 / 16) ln 2 + H / 16, H = 3.4 nats for 64 tokens; less where successors are the same
  CHECK(two > 1.0);
}
