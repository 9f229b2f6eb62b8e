#include <catch2/catch.hpp>
#include <numeric>

#include "data/files.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/data/dataset.hpp"
#include "tessera/data/reader.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

std::unique_ptr<TokenSource> counting_tokens(std::int32_t count) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens_in_memory(std::move(tokens), count);
}

}  // namespace

TEST_CASE("Batches come in order, targets are shifted by one, and whole epochs wrap") {
  const auto source = counting_tokens(101);
  for (const std::int64_t depth : {1, 2, 5}) {
    for (const std::int64_t length : {1, 3, 10}) {
      for (const std::int64_t batch : {1, 4}) {
        const Sampler sampler({0, 101}, length, SampleOrder::sequential, 1);
        BatchReader reader(
            *source, sampler, 101, batch, [&](std::int64_t q) { return q * batch; }, depth);
        for (std::int64_t q = 0; q < 60; ++q) {
          const auto taken = reader.take();
          REQUIRE(taken.first_sample == q * batch);
          REQUIRE(static_cast<std::int64_t>(taken.tokens.size()) == batch * length);
          for (std::int64_t i = 0; i < batch * length; ++i) {
            const auto at = static_cast<std::size_t>(i);
            const auto sample = (q * batch + i / length) % sampler.samples_per_epoch();
            REQUIRE(taken.tokens[at] == sample * length + i % length);
            REQUIRE(taken.targets[at] == taken.tokens[at] + 1);
          }
        }
      }
    }
  }
}

TEST_CASE("A batch in use is not overwritten, and no buffer is made after the start") {
  const auto source = counting_tokens(1000);
  const Sampler sampler({0, 1000}, 9, SampleOrder::shuffled, 1);
  BatchReader reader(
      *source, sampler, 1000, 2, [](std::int64_t q) { return 2 * q; }, 3);
  std::vector<const std::int32_t*> buffers;
  for (int q = 0; q < 200; ++q) {
    const auto batch = reader.take();
    const std::vector<std::int32_t> before(batch.tokens.begin(), batch.tokens.end());
    std::vector<std::int32_t> row(10), tokens(18), targets(18);
    fill_batch(*source, sampler, 1000, 2 * q, 2, row, tokens.data(), targets.data());
    REQUIRE(std::equal(tokens.begin(), tokens.end(), batch.tokens.begin()));
    REQUIRE(std::equal(targets.begin(), targets.end(), batch.targets.begin()));
    REQUIRE(std::equal(before.begin(), before.end(), batch.tokens.begin()));
    if (buffers.size() < 4) buffers.push_back(batch.tokens.data());
    REQUIRE(batch.tokens.data() == buffers[static_cast<std::size_t>(q % 4)]);
  }
}

TEST_CASE("Ranks that deal micro-batches read what one rank reads") {
  const auto source = synthetic_text(20'000, 64, 1);
  const Sampler sampler({0, 20'000}, 32, SampleOrder::shuffled, 7);
  constexpr std::int64_t micro_batches = 4, batch = 2;
  BatchReader alone(*source, sampler, 64, batch,
                    [](std::int64_t q) { return first_sample_of(q / 4, micro_batches, q % 4, batch); });
  std::vector<std::unique_ptr<BatchReader>> ranks;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    ranks.push_back(std::make_unique<BatchReader>(*source, sampler, 64, batch, [rank](std::int64_t q) {
      return first_sample_of(q / 2, micro_batches, q % 2 * 2 + rank, batch);
    }));
  }
  for (int number = 0; number < 400; ++number) {
    const auto expected = alone.take();
    const auto got = ranks[static_cast<std::size_t>(number % 2)]->take();
    REQUIRE(got.first_sample == expected.first_sample);
    REQUIRE(std::equal(expected.tokens.begin(), expected.tokens.end(), got.tokens.begin()));
  }
}

TEST_CASE("What goes wrong while reading ahead surfaces at its own batch, every time") {
  const auto source = counting_tokens(101);
  const Sampler sampler({0, 101}, 10, SampleOrder::sequential, 1);
  BatchReader reader(
      *source, sampler, 55, 1, [](std::int64_t q) { return q; }, 4);
  for (int q = 0; q < 5; ++q) CHECK(reader.take().tokens[0] == 10 * q);
  for (int again = 0; again < 3; ++again) {
    CHECK_THAT(usage_message([&] { reader.take(); }), Contains("token 55 at position 55"));
  }
}

TEST_CASE("A reader may be dropped at any moment") {
  const auto source = synthetic_text(100'000, 64, 1);
  const Sampler sampler({0, 100'000}, 64, SampleOrder::shuffled, 1);
  for (int taken = 0; taken < 60; ++taken) {
    BatchReader reader(
        *source, sampler, 64, 2, [](std::int64_t q) { return 2 * q; }, 1 + taken % 3);
    for (int i = 0; i < taken % 7; ++i) reader.take();
  }
}

namespace {

/// 0, 1, 2, ... in documents of 1, 2, 3, ... tokens.
class GrowingDocuments final : public TokenSource {
 public:
  explicit GrowingDocuments(std::int32_t count) : tokens_(counting_tokens(count)) {}
  std::int64_t size() const override { return tokens_->size(); }
  std::int64_t id_bound() const override { return tokens_->id_bound(); }
  void copy(std::int64_t first, std::int64_t count, std::int32_t* out) const override {
    tokens_->copy(first, count, out);
  }
  std::string describe() const override { return "growing documents"; }
  bool has_documents() const override { return true; }
  std::int64_t document_end(std::int64_t token) const override {
    std::int64_t end = 0;
    for (std::int64_t length = 1; end <= token; ++length) end += length;
    return std::min(end, size());
  }

 private:
  std::unique_ptr<TokenSource> tokens_;
};

}  // namespace

TEST_CASE("Positions restart with each document, and with each sample") {
  const GrowingDocuments source(120);
  const Sampler sampler({0, 120}, 7, SampleOrder::sequential, 1);
  BatchReader reader(source, sampler, 120, 3, [](std::int64_t q) { return 3 * q; });
  for (int q = 0; q < 5; ++q) {
    const auto batch = reader.take();
    REQUIRE(batch.positions.size() == batch.tokens.size());
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
      const std::int64_t token = batch.tokens[i];
      const bool begins = i % 7 == 0 || token == 0 || source.document_end(token - 1) == token;
      REQUIRE(batch.positions[i] == (begins ? 0 : batch.positions[i - 1] + 1));
    }
  }
  const auto plain = counting_tokens(120);
  BatchReader without(*plain, sampler, 120, 3, [](std::int64_t q) { return 3 * q; });
  CHECK(without.take().positions.empty());
  CHECK_THROWS_AS(plain->document_end(0), InternalError);
}

namespace {

/// 0, 1, 2, ..., of which every third is not a target.
class EveryThirdMasked final : public TokenSource {
 public:
  std::int64_t size() const override { return 100; }
  std::int64_t id_bound() const override { return 100; }
  void copy(std::int64_t first, std::int64_t count, std::int32_t* out) const override {
    std::iota(out, out + count, static_cast<std::int32_t>(first));
  }
  std::string describe() const override { return "every third masked"; }
  bool masks_loss() const override { return true; }
  void mask_targets(std::int64_t first, std::int64_t count, std::int32_t* ids) const override {
    for (std::int64_t i = 0; i < count; ++i) {
      if ((first + i) % 3 == 0) ids[i] = kUncountedToken;
    }
  }
};

}  // namespace

TEST_CASE("Targets that do not count are marked, and counted from the sampler alone") {
  const EveryThirdMasked source;
  const Sampler sampler({10, 83}, 7, SampleOrder::shuffled, 3);
  BatchReader reader(source, sampler, 100, 2, [](std::int64_t q) { return 2 * q; });
  std::vector<std::int32_t> row(8);
  for (std::int64_t q = 0; q < 20; ++q) {
    const auto batch = reader.take();
    std::int64_t counted = 0;
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
      const std::int32_t next = batch.tokens[i] + 1;
      REQUIRE(batch.targets[i] == (next % 3 == 0 ? kUncountedToken : next));
      counted += batch.targets[i] >= 0 ? 1 : 0;
    }
    REQUIRE(counted_targets(source, sampler, 2 * q, 2, row) == counted);
  }
  CHECK(counted_targets(*counting_tokens(100), sampler, 5, 4, row) == 28);
}

TEST_CASE("A sample of several ranges predicts nothing across them, and its positions restart with each") {
  const GrowingDocuments documents(100);
  const EveryThirdMasked masked;
  std::uint64_t state = 1;
  const auto below = [&](std::int64_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(n));
  };
  for (int draw = 0; draw < 300; ++draw) {
    const std::int64_t length = 1 + below(40);
    TokenRanges ranges;
    std::vector<std::int32_t> all, starts;
    while (std::ssize(all) < length + 1) {
      const std::int64_t first = below(50), count = std::min(1 + below(50), length + 1 - std::ssize(all));
      ranges.push_back({first, count});
      starts.push_back(static_cast<std::int32_t>(all.size()));
      for (std::int64_t i = first; i < first + count; ++i) all.push_back(static_cast<std::int32_t>(i));
    }
    const auto size = static_cast<std::size_t>(length);
    std::vector<std::int32_t> row(size + 1), tokens(size), targets(size), positions(size);
    fill_sample(documents, ranges, 100, row, tokens.data(), targets.data(), positions.data());
    fill_sample(masked, ranges, 100, row, tokens.data(), targets.data());
    for (std::size_t i = 0; i < size; ++i) {
      const auto starts_at = [&](std::size_t at) { return std::ranges::count(starts, at) > 0; };
      REQUIRE(tokens[i] == all[i]);
      REQUIRE(targets[i] == (starts_at(i + 1) || all[i + 1] % 3 == 0 ? kUncountedToken : all[i + 1]));
      const bool begins = starts_at(i) || documents.document_end(all[i] - 1) == all[i];
      REQUIRE(positions[i] == (begins ? 0 : positions[i - 1] + 1));
    }
  }
  CHECK(place_of(*counting_tokens(9), {{1, 2}, {5, 1}}) ==
        "tokens in memory, tokens 1 to 2; tokens in memory, tokens 5 to 5");
}
