#include <catch2/catch.hpp>

#include "data/files.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/data/dataset.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

Dataset dataset_of(const DataOptions& options, std::int64_t seq_len) {
  return {{synthetic_text(1000, 300, 1), {}}, options, 300, seq_len};
}

}  // namespace

TEST_CASE("A dataset joins corpus, split and samplers") {
  const DataOptions options;
  const Dataset data = dataset_of(options, 15);
  CHECK(data.train().samples_per_epoch() == 899 / 15);
  CHECK(data.train().order() == SampleOrder::shuffled);
  REQUIRE(data.validation().size() == 1);
  const ValidationSet& set = data.validation().front();
  CHECK(set.samples.samples_per_epoch() == 99 / 15);
  CHECK(set.samples.order() == SampleOrder::sequential);
  CHECK(set.samples.first_token(0) == 900);
  CHECK(set.source == &data.source());
  auto other = options;
  other.val_fraction = 0.0;
  const Dataset whole = dataset_of(other, 15);
  CHECK(whole.validation().empty());
  CHECK(whole.fingerprint() != data.fingerprint());
  CHECK(data.fingerprint() == dataset_of(options, 99).fingerprint());
  CHECK_THAT(usage_message([&] { dataset_of(options, 100); }), Contains("train.seq_len"));
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
