#include <catch2/catch.hpp>

#include "sanitized.hpp"
#include "tokenizer/code_points.hpp"

using namespace tessera;

TEST_CASE("code points go into UTF-8 and come back from both ends") {
  const char32_t step = testing::kSanitized ? 7 : 1;
  std::size_t wrong = 0;
  for (char32_t point = 0; point <= 0x10ffff; point += step) {
    if (point >= 0xd800 && point < 0xe000) continue;
    std::string text = "\u3000";
    append_point(text, point);
    const std::string alone = text.substr(3);
    const DecodedPoint first = first_point(alone), last = last_point(text);
    wrong += first.point != point || first.length != alone.size() || last.point != point || last.length != alone.size();
  }
  CHECK(wrong == 0);
}

TEST_CASE("text that ends in a part of a character ends in U+FFFD") {
  for (const char* text : {"\x80", "a\xe3\x80", "\xff", "a\xc3", "\xe3\x80\x80\x80", "\xed\xa0\x80"})
    CHECK(last_point(text).point == kReplacement);
  CHECK(last_point("\xf0\x9f\xe3\x80\x80").point == 0x3000);
}

TEST_CASE("white space and word characters") {
  int white = 0;
  for (char32_t point = 0; point <= 0x10ffff; ++point) white += is_white_space(point) ? 1 : 0;
  CHECK(white == 25);
  CHECK_FALSE(is_white_space(0x180e));
  CHECK_FALSE(is_white_space(0x200b));
  for (const char32_t point :
       {U'a', U'9', U'_', U'\u00e9', U'\u0301', U'\u4e2d', U'\u2160', U'\u24d0', U'\u200d', U'\u203f'})
    CHECK(is_word_character(point));
  for (const char32_t point : {U' ', U'-', U'\u00b2', U'\u2014', U'\U0001f600', U'\0'})
    CHECK_FALSE(is_word_character(point));
}
