#include <catch2/catch.hpp>

#include "tessera/base/utf8.hpp"
#include "tokenizer/code_points.hpp"
#include "tokenizer/drawn_text.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

std::string replaced(const std::string& text) {
  std::string scratch;
  return std::string(well_formed(text, scratch));
}

bool is_valid(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

const std::string kMark = "\ufffd";

}  // namespace

TEST_CASE("valid text is passed as it is") {
  const std::string text = "a\u00e9\u4e2d\U0001f600 and a long run of ASCII after it\u00e9";
  std::string scratch;
  CHECK(well_formed(text, scratch).data() == text.data());
  CHECK(scratch.empty());
}

// Expectations are Python 3.11's bytes.decode("utf-8", errors="replace").
TEST_CASE("each maximal ill-formed part becomes one U+FFFD") {
  CHECK(replaced("\xff") == kMark);
  CHECK(replaced("a\x80z") == "a" + kMark + "z");
  CHECK(replaced("\xc0\xaf") == kMark + kMark);                          // overlong
  CHECK(replaced("\xe0\x80\x80") == kMark + kMark + kMark);              // overlong
  CHECK(replaced("\xed\xa0\x80") == kMark + kMark + kMark);              // a surrogate
  CHECK(replaced("\xf4\x90\x80\x80") == kMark + kMark + kMark + kMark);  // beyond U+10FFFF
  CHECK(replaced("\xf5\x80") == kMark + kMark);
  CHECK(replaced("\xe2\x82") == kMark);         // cut at the end
  CHECK(replaced("\xe2\x82z") == kMark + "z");  // cut by a letter
  CHECK(replaced("\xf0\x9f\x98") == kMark);
  CHECK(replaced("\xf0\x9f\x98\xf0\x9f\x98\x80") == kMark + "\U0001f600");
  CHECK(replaced("\xf0\x9f\x41") == kMark + "A");
  CHECK(replaced("\xf0\x80\x80") == kMark + kMark + kMark);
  CHECK(replaced("\xc3") == kMark);
  CHECK(replaced("\xc3\xc3\xa9") == kMark + "\u00e9");
}

TEST_CASE("drawn bytes become valid text, and valid text stays") {
  DrawnText drawn(11);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = drawn.bytes(drawn.below(40)) + drawn.nasty(drawn.below(10)) + drawn.bytes(drawn.below(9));
    INFO(escaped(text));
    const std::string valid = replaced(text);
    REQUIRE(is_valid(valid));
    REQUIRE(replaced(valid) == valid);
    if (is_valid(text)) REQUIRE(valid == text);
  }
}
