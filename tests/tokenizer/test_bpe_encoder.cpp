#include <nlohmann/json.hpp>
#include <thread>

#include "file_support.hpp"
#include "sanitized.hpp"
#include "tessera/base/error.hpp"
#include "tokenizer/bpe.hpp"
#include "tokenizer/code_points.hpp"
#include "tokenizer/drawn_text.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

using Ids = std::vector<std::int32_t>;

Ids encoded(Tokenizer::Encoder& encoder, std::string_view text) {
  Ids ids;
  encoder.encode(text, ids);
  return ids;
}

constexpr int kRounds = testing::kSanitized ? 300 : 3000;

}  // namespace

TEST_CASE("the quick path and the pattern alone give the same ids") {
  for (const std::string& family : kFamilies) {
    const BpeTables tables(description_of(family));
    const auto quick = make_bpe_encoder(tables), slow = make_bpe_encoder(tables, false);
    DrawnText drawn(29);
    for (int i = 0; i < kRounds; ++i) {
      const std::string text = drawn.nasty(drawn.below(30));
      INFO(family << ": " << escaped(text));
      REQUIRE(encoded(*quick, text) == encoded(*slow, text));
    }
  }
}

TEST_CASE("decoding gives the text back, U+FFFD for what is not UTF-8") {
  for (const std::string family : {"gpt2", "llama3", "llama2", "gemma"}) {
    const auto tokenizer = open_tokenizer(family_path(family));
    const auto encoder = tokenizer->encoder();
    DrawnText drawn(31);
    std::string scratch;
    for (int i = 0; i < kRounds; ++i) {
      const std::string text = drawn.nasty(drawn.below(30)) + (i % 3 == 0 ? drawn.bytes(drawn.below(9)) : "");
      INFO(family << ": " << escaped(text));
      REQUIRE(tokenizer->decode(encoded(*encoder, text)) == well_formed(text, scratch));
    }
  }
}

TEST_CASE("ids do not depend on what was encoded before, nor on the thread") {
  for (const std::string& family : kFamilies) {
    const auto tokenizer = open_tokenizer(family_path(family));
    DrawnText drawn(37);
    std::vector<std::string> texts;
    std::vector<Ids> expected;
    for (int i = 0; i < 100; ++i) {
      texts.push_back(drawn.nasty(drawn.below(60)));
      expected.push_back(encoded(*tokenizer->encoder(), texts.back()));
    }
    std::array<std::size_t, 2> wrong{};
    std::array<std::thread, 2> threads;
    for (std::size_t t = 0; t < threads.size(); ++t) {
      threads[t] = std::thread([&, t] {
        const auto encoder = tokenizer->encoder();
        for (int round = 0; round < 3; ++round) {
          for (std::size_t i = 0; i < texts.size(); ++i) {
            const std::size_t k = t == 0 ? i : texts.size() - 1 - i;
            wrong[t] += encoded(*encoder, texts[k]) != expected[k];
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == std::array<std::size_t, 2>{});
  }
}

TEST_CASE("characters without a token are left out and named, once") {
  BpeDescription description = description_of("smol");
  const BpeTables bytes(description);
  description = description_of("llama2");
  description.byte_fallback = false;
  description.unknown = -1;
  const BpeTables characters(description);
  for (const auto& [tables, lost] : {std::pair(&bytes, "byte 0xf3"), std::pair(&characters, "U+F0001")}) {
    const auto encoder = make_bpe_encoder(*tables);
    for (int round = 0; round < 2; ++round) {
      CHECK(encoded(*encoder, "a b").size() == 2);
      CHECK(encoder->take_lost().empty());
      encoded(*encoder, "a\U000f0001b \U000f0002");
      CHECK(encoder->take_lost() == lost);
      CHECK(encoder->take_lost().empty());
    }
  }
}

TEST_CASE("ids are appended") {
  const auto tokenizer = open_tokenizer(family_path("gpt2"));
  Ids ids{-5};
  tokenizer->encoder()->encode("", ids);
  CHECK(ids == Ids{-5});
  tokenizer->encoder()->encode("a", ids);
  CHECK(ids.size() == 2);
}

TEST_CASE("ten megabytes of spaces, of one letter; a megabyte of other words without an end") {
  for (const std::string family : {"gpt2", "qwen2", "llama3", "llama2", "gemma"}) {
    const auto tokenizer = open_tokenizer(family_path(family));
    const auto encoder = tokenizer->encoder();
    for (const std::string part : {" ", "a", "\n", "\u00e9", "7", " \n", "theword"}) {
      const bool large = (part == " " || part == "a") && family == "gpt2";
      const std::size_t size = testing::kSanitized ? 100'000 : large ? 10'000'000 : 1'000'000;
      std::string text;
      while (text.size() < size) text += part;
      INFO(family << ", " << escaped(part));
      REQUIRE(tokenizer->decode(encoded(*encoder, text)) == text);
    }
  }
}

TEST_CASE("a text of many pieces has the ids of its pattern's words") {
  for (const std::string& family : kFamilies) {
    const BpeTables tables(description_of(family));
    BpeTables uncut(description_of(family));
    uncut.cuts = Cuts::nowhere;
    DrawnText drawn(41);
    std::string text;
    while (text.size() < (testing::kSanitized ? 200'000u : 1'000'000u)) text += drawn.nasty(1 + drawn.below(50));
    CHECK(encoded(*make_bpe_encoder(tables), text) == encoded(*make_bpe_encoder(uncut), text));
  }
}
