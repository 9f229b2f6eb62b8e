#include <catch2/catch.hpp>

#include "sanitized.hpp"
#include "tokenizer/bpe_description.hpp"
#include "tokenizer/drawn_text.hpp"
#include "tokenizer/quick_words.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

/// Compares every word of a text with the pattern's; returns how many were cut without it.
template <PatternFamily kFamily>
std::size_t compare(Pattern::Finder& finder, const std::string& text) {
  const QuickWords<kFamily> words(text);
  std::size_t quick = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto found = finder.next(text, at);
    REQUIRE(found.begin == at);
    const std::size_t end = words.end_of_word(at);
    if (end != words.kAsk) {
      INFO("\"" << escaped(text) << "\" from byte " << at);
      REQUIRE(end == found.end);
      ++quick;
    }
    at = found.end;
  }
  return quick;
}

template <PatternFamily kFamily>
void compare_drawn(const char* pattern_text) {
  const Pattern pattern(pattern_text);
  REQUIRE(pattern.family() == kFamily);
  Pattern::Finder finder(pattern);
  DrawnText drawn(17);
  const int rounds = testing::kSanitized ? 3000 : 30'000;
  std::size_t quick = 0;
  for (int i = 0; i < rounds; ++i) quick += compare<kFamily>(finder, drawn.nasty(1 + drawn.below(14)));
  CHECK(quick > static_cast<std::size_t>(rounds));
  // Every text of four characters of these: all kinds of bytes, and the letters of contractions.
  const std::string alphabet = " \n\ta7!'slRe\x01";
  std::string text(4, ' ');
  for (const char a : alphabet)
    for (const char b : alphabet)
      for (const char c : alphabet)
        for (const char d : alphabet) {
          text = {a, b, c, d};
          compare<kFamily>(finder, text);
        }
  // ASCII text never needs the pattern.
  const std::string code = "for (int i = 0; i < 10; ++i) {\r\n\treturn x_1['it''s'];  // I'LL\n\n}\n 12345 ";
  const QuickWords<kFamily> words(code);
  for (std::size_t at = 0; at < code.size(); at = words.end_of_word(at)) REQUIRE(words.end_of_word(at) != words.kAsk);
}

}  // namespace

TEST_CASE("words by hand are the pattern's: GPT-2") { compare_drawn<PatternFamily::gpt2>(kGpt2Pattern); }
TEST_CASE("words by hand are the pattern's: Qwen2") { compare_drawn<PatternFamily::qwen2>(kQwen2Pattern); }
TEST_CASE("words by hand are the pattern's: Llama-3") { compare_drawn<PatternFamily::llama3>(kLlama3Pattern); }
