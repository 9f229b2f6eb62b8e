#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "data/files.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/data/evaluation.hpp"
#include "tessera/data/reader.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

Dataset dataset_of(const DataOptions& options, std::int64_t seq_len) {
  return {{synthetic_text(1000, 300, 1), {}}, options, 300, seq_len};
}

/// Tokens 1, 2, 3, ... in documents of `document` tokens; the loss leaves out each token that `hidden` divides, and
/// those up to `silent`.
class Counted final : public TokenSource {
 public:
  Counted(std::int64_t size, std::int64_t document, std::int64_t hidden, std::int64_t silent = 0)
      : size_(size), document_(document), hidden_(hidden), silent_(silent) {}
  std::int64_t size() const override { return size_; }
  std::int64_t id_bound() const override { return size_ + 1; }
  void copy(std::int64_t first, std::int64_t count, std::int32_t* out) const override {
    REQUIRE((first >= 0 && first + count <= size_));
    std::iota(out, out + count, static_cast<std::int32_t>(first + 1));
  }
  bool has_documents() const override { return document_ > 0; }
  std::int64_t document_end(std::int64_t token) const override {
    return std::min(size_, (token / document_ + 1) * document_);
  }
  bool masks_loss() const override { return hidden_ > 0; }
  void mask_targets(std::int64_t first, std::int64_t count, std::int32_t* ids) const override {
    for (std::int64_t i = 0; i < count; ++i) {
      if (!counts(first + i + 1)) ids[i] = kUncountedToken;
    }
  }
  std::string describe() const override { return "counted"; }
  bool counts(std::int64_t id) const { return hidden_ == 0 || (id % hidden_ != 0 && id > silent_); }

 private:
  std::int64_t size_, document_, hidden_, silent_;
};

}  // namespace

TEST_CASE("Sets that are filled up have every target of their part once, in order, and no other") {
  std::mt19937_64 draw(20261127);
  const auto between = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(draw);
  };
  for (int round = 0; round < 200; ++round) {
    const std::int64_t size = between(2, 90), length = between(1, 40), document = between(0, 1) * between(1, 30);
    const Counted corpus(size, document, between(0, 1) * between(2, 5));
    const double fraction = between(0, 1) == 1 ? 1 : 0.7;
    DataOptions options;
    options.document_mask = document > 0 ? Tristate::yes : Tristate::no;
    const std::int64_t begin = size - tokens_for_validation(size, fraction);
    if (size - begin < 2) continue;
    INFO(size << " tokens from " << begin << ", windows of " << length << ", documents of " << document);
    std::vector<NamedSource> named;
    named.push_back({"a", std::make_unique<Counted>(corpus)});
    const ValidationSet set = validation_sets(named, fraction, length, options, LastTargets::filled).front();
    const std::int64_t windows = evaluated_windows(set, 3, 0);
    CHECK(set.samples.targets_after(windows) == 0);
    std::vector<std::int32_t> row(static_cast<std::size_t>(length + 1)), tokens(row.size()), targets(row.size()),
        positions(row.size()), found, expected;
    for (std::int64_t window = 0; window < windows; ++window) {
      fill_batch(*set.source, set.samples, size + 1, window, 1, row, tokens.data(), targets.data(),
                 document > 0 ? positions.data() : nullptr);
      for (std::size_t i = 0; i < static_cast<std::size_t>(length); ++i) {
        if (targets[i] == kUncountedToken) continue;
        found.push_back(targets[i]);
        CHECK(tokens[i] == targets[i] - 1);
      }
    }
    for (auto id = static_cast<std::int32_t>(begin + 2); id <= size; ++id) {
      if (corpus.counts(id)) expected.push_back(id);
    }
    CHECK(found == expected);
    if (!expected.empty()) CHECK(evaluated_tokens(set, windows) == std::ssize(expected));
  }
  std::vector<NamedSource> one;
  one.push_back({"", synthetic_text(1, 300, 1)});
  CHECK_THAT(usage_message([&] { validation_sets(one, 1, 15, {}, LastTargets::filled); }),
             Contains("a prediction takes two"));
}

TEST_CASE("A dataset joins corpus, split and samplers") {
  const DataOptions options;
  const Dataset data = dataset_of(options, 15);
  CHECK(data.train().samples_per_epoch() == 899 / 15);
  CHECK(data.train().order() == SampleOrder::shuffled);
  REQUIRE(data.validation().size() == 1);
  const ValidationSet& set = data.validation().front();
  CHECK(set.samples.samples_per_epoch() == 99 / 15);
  CHECK(set.samples.order() == SampleOrder::sequential);
  CHECK(set.samples.ranges(0) == TokenRanges{{900, 16}});
  CHECK(set.source == &data.source());
  auto other = options;
  other.val_fraction = 0.0;
  const Dataset whole = dataset_of(other, 15);
  CHECK(whole.validation().empty());
  CHECK(whole.fingerprint() != data.fingerprint());
  CHECK(data.fingerprint() == dataset_of(options, 99).fingerprint());
  CHECK_THAT(usage_message([&] { dataset_of(options, 100); }), Contains("train.seq_len"));
}

TEST_CASE("Samples to train on of which nothing counts are refused, whatever is kept for validation") {
  const auto train_on = [](std::int64_t silent, double fraction) {
    DataOptions options;
    options.document_mask = Tristate::no;
    options.val_fraction = fraction;
    const Dataset data({std::make_unique<Counted>(100, 0, 1000, silent), {}}, options, 300, 9);
  };
  train_on(81, 0.1);  // token 82 is the last target of the samples in front of the border
  train_on(82, 0);
  CHECK_THROWS_WITH(train_on(82, 0.1), Contains("nothing in the 9 samples of 9 tokens to train on"));
  CHECK_THROWS_WITH(train_on(100, 0), Contains("nothing in the 11 samples"));
}

TEST_CASE("A validation corpus of its own leaves the other whole") {
  const auto with = [](std::int64_t tokens) {
    DataSources sources{synthetic_text(1000, 300, 1), {}};
    sources.validation.push_back({"", synthetic_text(tokens, 300, 2)});
    return Dataset(std::move(sources), DataOptions{}, 300, 15);
  };
  const Dataset data = with(50);
  CHECK(data.split().train.count == 1000);
  REQUIRE(data.validation().size() == 1);
  CHECK(data.validation().front().samples.samples_per_epoch() == 3);
  CHECK(data.validation().front().source->size() == 50);
  CHECK(data.validation_tokens() == 50);
  CHECK(data.fingerprint() != with(60).fingerprint());
  CHECK_THAT(usage_message([&] { with(15); }), Contains("data.val_source") && Contains("train.seq_len"));
}
