#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "data/files.hpp"
#include "tessera/data/token_source.hpp"
#include "text_tokens.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

std::vector<std::int32_t> counting(std::int64_t size) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(size));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

/// Zeros but for one token, so many of them that not all are looked at; notes which blocks are.
class HugeSource final : public TokenSource {
 public:
  explicit HugeSource(std::int64_t size, std::int64_t odd_one = -1) : size_(size), odd_one_(odd_one) {}
  std::int64_t size() const override { return size_; }
  std::int64_t id_bound() const override { return 10; }
  std::string describe() const override { return "huge"; }
  void copy(std::int64_t first, std::int64_t count, std::int32_t* out) const override {
    TESSERA_ASSERT(first >= 0 && count >= 0 && first <= size_ - count, "tokens {}+{} of {}", first, count, size_);
    for (std::int64_t i = 0; i < count; ++i) out[i] = first + i == odd_one_ ? 9 : 0;
    read += count;
    if (count > 0) lowest = std::min(lowest, first), highest = std::max(highest, first + count);
  }

 private:
  std::int64_t size_, odd_one_;

 public:
  mutable std::int64_t read = 0, lowest = size_, highest = 0;
};

}  // namespace

TEST_CASE("Tokens in memory keep to their bound and their range") {
  const auto source = tokens_in_memory(counting(7), 7);
  CHECK(source->size() == 7);
  CHECK(source->id_bound() == 7);
  std::int32_t out[3] = {-1, -1, -1};
  source->copy(4, 3, out);
  CHECK((out[0] == 4 && out[1] == 5 && out[2] == 6));
  source->copy(7, 0, out);
  CHECK_THROWS_AS(source->copy(5, 3, out), InternalError);
  CHECK_THROWS_AS(source->copy(-1, 1, out), InternalError);
  CHECK_THROWS_AS(tokens_in_memory({0, 7}, 7), InternalError);
  CHECK_THROWS_AS(tokens_in_memory({0, -1}, 7), InternalError);
  const auto text = test::tokens_of_text("a\xff");
  text->copy(0, 2, out);
  CHECK((out[0] == 'a' && out[1] == 255));
}

TEST_CASE("The first token beyond the vocabulary is named where it lies in the source") {
  const auto source = tokens_in_memory(counting(100), 100);
  std::int32_t out[20];
  copy_checked(*source, 30, 20, 50, out);
  CHECK(out[19] == 49);
  CHECK_THAT(usage_message([&] { copy_checked(*source, 40, 20, 50, out); }),
             Contains("token 50 at position 50") && Contains("ids 0 to 49 (model.vocab = 50)"));
  check_vocabulary(*source, 100);
  CHECK_THAT(usage_message([&] { check_vocabulary(*source, 99); }), Contains("token 99 at position 99"));
}

TEST_CASE("Of a source that is too long to be read only the ends are checked, of others all") {
  constexpr std::int64_t all = std::int64_t{1} << 26;
  CHECK_THROWS_AS(check_vocabulary(HugeSource(all, all / 3), 9), UsageError);
  const HugeSource longer(all + 1, all / 3);
  check_vocabulary(longer, 9);
  CHECK(longer.read < all / 100);
  CHECK_THROWS_AS(check_vocabulary(HugeSource(all + 1, 0), 9), UsageError);
  CHECK_THROWS_AS(check_vocabulary(HugeSource(all + 1, all), 9), UsageError);
  const HugeSource bounded(all + 1, 0);
  check_vocabulary(bounded, 10);
  CHECK(bounded.read == 0);  // its format rules larger ids out
}

TEST_CASE("A fingerprint sees length, content and both ends, and reads little") {
  std::set<std::uint64_t> seen;
  const auto add = [&](const TokenSource& source) { return seen.insert(fingerprint(source)).second; };
  for (const std::int64_t size : {1, 2, 4095, 4096, 4097, 65 * 4096, 65 * 4096 + 1, 500'000}) {
    CAPTURE(size);
    CHECK(add(HugeSource(size)));
    CHECK(add(HugeSource(size, 0)));
    if (size > 1) CHECK(add(HugeSource(size, size - 1)));
  }
  // Up to 65 blocks every token counts.
  for (const std::int64_t place : {1, 4096, 100'000, 65 * 4096 - 2}) CHECK(add(HugeSource(65 * 4096, place)));
  const HugeSource huge(std::int64_t{1} << 40);
  CHECK(fingerprint(huge) == fingerprint(huge));
  CHECK(huge.read <= 2 * 66 * 4096);
  CHECK(huge.lowest == 0);
  CHECK(huge.highest == huge.size());
}
