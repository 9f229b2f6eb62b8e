#include <catch2/catch.hpp>

#include "sanitized.hpp"
#include "tokenizer/bpe.hpp"
#include "tokenizer/drawn_text.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

using Ids = std::vector<std::int32_t>;

/// Encodes the parts that cuts make. Returns their number.
std::size_t encode_parts(const BpeTables& tables, Tokenizer::Encoder& encoder, std::string_view text, std::size_t from,
                         Ids& ids) {
  std::size_t parts = 0;
  for (; !text.empty(); ++parts) {
    const std::size_t cut = cut_bpe_at_or_after(tables, text, from);
    REQUIRE(cut >= std::min(from, text.size()));
    REQUIRE(cut <= text.size());
    encoder.encode(text.substr(0, cut), ids, parts > 0);
    text.remove_prefix(cut);
  }
  return parts;
}

/// Cuts drawn texts wherever that is allowed; returns the cuts.
std::size_t compare(const BpeTables& tables, const std::string& family) {
  const auto encoder = make_bpe_encoder(tables);
  DrawnText drawn(43);
  std::size_t cuts = 0;
  for (int i = 0; i < (testing::kSanitized ? 1000 : 10'000); ++i) {
    const std::string text = drawn.nasty(1 + drawn.below(20)) + (i % 4 == 0 ? drawn.bytes(3) + drawn.nasty(6) : "");
    INFO(family << ": " << escaped(text));
    Ids whole, parts;
    encoder->encode(text, whole);
    cuts += encode_parts(tables, *encoder, text, 1 + drawn.below(4), parts) - 1;
    REQUIRE(parts == whole);
  }
  return cuts;
}

}  // namespace

TEST_CASE("both parts of a cut text give the ids of the whole") {
  for (const std::string family : {"gpt2", "qwen2", "llama3", "smol", "llama2", "mistral"})
    CHECK(compare(BpeTables(description_of(family)), family) > 500);
}

TEST_CASE("added tokens that could reach across a cut keep text whole") {
  const auto cuts = [](const AddedToken& token) {
    BpeDescription description = description_of("gpt2");
    description.added = {token};
    const BpeTables tables(description);
    const bool some = tables.cuts != Cuts::nowhere;
    if (!some) CHECK(cut_bpe_at_or_after(tables, "some words here", 2) == 15);
    compare(tables, token.content);
    return some;
  };
  AddedToken token;
  token.id = 20'000;
  token.content = "word";
  token.lstrip = token.single_word = token.normalized = true;
  CHECK(cuts(token));
  token.content = " lead";
  CHECK_FALSE(cuts(token));  // not after a word's character, because the text before the cut decides
  token.single_word = false;
  CHECK(cuts(token));
  token.content = "two words";
  CHECK_FALSE(cuts(token));
  token.content = "word";
  token.rstrip = true;
  CHECK_FALSE(cuts(token));
  CHECK(BpeTables(description_of("added")).cuts == Cuts::nowhere);
  BpeDescription other = description_of("gpt2");
  other.words[0].from = "\\p{L}+";
  CHECK(BpeTables(other).cuts == Cuts::nowhere);
}

TEST_CASE("a tokenizer whose tokens reach across a mark of a space is not cut there") {
  CHECK(BpeTables(description_of("llama2")).cuts == Cuts::before_marks);
  CHECK(BpeTables(description_of("gemma")).cuts == Cuts::nowhere);  // it has "e\u2581"
  BpeDescription description = description_of("llama2");
  description.added[0].content = "a\u2581b";
  CHECK(BpeTables(description).cuts == Cuts::nowhere);
  description = description_of("llama2");
  description.byte_fallback = false;  // unknown characters are one token, or left out
  CHECK(BpeTables(description).cuts == Cuts::before_marks);
  description.unknown = -1;
  CHECK(BpeTables(description).cuts == Cuts::nowhere);
}

TEST_CASE("words that are cut before marks have the ids of whole texts") {
  for (const std::string family : {"llama2", "mistral"}) {
    BpeDescription description = description_of(family);
    const BpeTables cut(description);
    AddedToken reaching;  // which keeps texts whole
    reaching.content = "never there";
    reaching.id = 20'000;
    description.added.push_back(reaching);
    const BpeTables whole(description);
    REQUIRE(whole.cuts == Cuts::nowhere);
    const auto one = make_bpe_encoder(cut), other = make_bpe_encoder(whole);
    DrawnText drawn(53);
    for (int i = 0; i < 1000; ++i) {
      const std::string text = drawn.nasty(drawn.below(40)) + (i % 5 == 0 ? "\u2581 \u2581x" : "");
      INFO(family << ": " << escaped(text));
      Ids mine, theirs;
      one->encode(text, mine);
      other->encode(text, theirs);
      REQUIRE(mine == theirs);
    }
  }
}

TEST_CASE("a prefix goes before the text, however long it is") {
  BpeDescription description = description_of("gpt2");
  description.words.insert(description.words.begin(), TextRule{TextRule::Kind::prefix, "", " "});
  const BpeTables tables(description);
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "the\n";
  const auto encoder = make_bpe_encoder(tables);
  Ids all, spaced;
  encoder->encode(text, all);
  encoder->encode(" " + text, spaced);
  CHECK(all == spaced);
  CHECK(cut_bpe_at_or_after(tables, text, 10) == text.size());
}

TEST_CASE("cuts come soon in every kind of text") {
  const auto longest = [](const std::string& family, const std::string& line) {
    const BpeTables tables(description_of(family));
    std::string text;
    while (text.size() < 5000) text += line;
    return cut_bpe_at_or_after(tables, text, 1000) - 1000;
  };
  for (const std::string family : {"gpt2", "qwen2", "llama3"}) {
    CHECK(longest(family, "Words and words. ") < 10);
    CHECK(longest(family, "no_spaces_here\n") < 20);
    CHECK(longest(family, "\u4e2d\u6587\u6587\u672c\n") < 20);
  }
  for (const std::string family : {"gpt2", "qwen2", "llama3"})
    CHECK(longest(family, "\u4e2d\u6587\u6587\u672c\u3002\n") < 20);
}
