#include <catch2/catch.hpp>

#include "data/files.hpp"
#include "tessera/data/dataset.hpp"

using namespace tessera;
using Catch::Contains;

TEST_CASE("A dataset joins corpus, split and samplers") {
  DataOptions options;
  options.synthetic_tokens = 1000;
  const Dataset data(options, 300, 15);
  CHECK(data.train().samples_per_epoch() == 899 / 15);
  CHECK(data.train().order() == SampleOrder::shuffled);
  REQUIRE(data.validation().has_value());
  CHECK(data.validation()->samples_per_epoch() == 99 / 15);
  CHECK(data.validation()->order() == SampleOrder::sequential);
  CHECK(data.validation()->first_token(0) == 900);
  auto other = options;
  other.val_fraction = 0.0;
  const Dataset whole(other, 300, 15);
  CHECK_FALSE(whole.validation().has_value());
  CHECK(whole.fingerprint() != data.fingerprint());
  CHECK(data.fingerprint() == Dataset(options, 300, 99).fingerprint());
  CHECK_THAT(usage_message([&] { Dataset(options, 300, 100); }), Contains("train.seq_len"));
}
