#include <utf8proc.h>

#include <catch2/catch.hpp>

#include "sanitized.hpp"
#include "tokenizer/code_points.hpp"
#include "tokenizer/drawn_text.hpp"
#include "tokenizer/normal_form.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

/// By utf8proc's function for whole texts.
std::string expected(const std::string& text) {
  utf8proc_uint8_t* result = nullptr;
  const auto length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &result, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  REQUIRE(length >= 0);
  std::string form(reinterpret_cast<const char*>(result), static_cast<std::size_t>(length));
  std::free(result);
  return form;
}

std::string text_of(std::initializer_list<char32_t> points) {
  std::string text;
  for (const char32_t point : points) append_point(text, point);
  return text;
}

}  // namespace

TEST_CASE("text in normal form is passed as it is") {
  NormalForm form;
  for (const std::string text : {"", "ASCII", "\u00e9t\u00e9 \u4e2d \u3042 \uac00 \u0430 \U0001f600"})
    CHECK(form.compose(text).data() == text.data());
}

TEST_CASE("characters compose, marks are sorted") {
  NormalForm form;
  CHECK(form.compose("e\u0301") == "\u00e9");
  CHECK(form.compose("xe\u0301x") == "x\u00e9x");
  CHECK(form.compose("\u00e9e\u0301\u00e9") == "\u00e9\u00e9\u00e9");
  CHECK(form.compose("a\u0302\u0323") == "\u1ead");
  CHECK(form.compose("\u1100\u1161\u11a8") == "\uac01");
  CHECK(form.compose("\u212b\u2126") == "\u00c5\u03a9");
  CHECK(form.compose("\u0958") == "\u0915\u093c");
  CHECK(form.compose("\u0301 a") == "\u0301 a");
  CHECK(form.compose(form.compose("x\u0958\u0301 \u0958")) == "x\u0915\u093c\u0301 \u0915\u093c");
}

TEST_CASE("what is said to stay alone does, after any character") {
  NormalForm form;
  std::size_t wrong = 0, alone = 0;
  for (char32_t point = 0x80; point <= 0x10ffff; ++point) {
    if (!stays_alone(point)) continue;
    ++alone;
    const auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(point));
    wrong += property->combining_class != 0;
    if (testing::kSanitized && point % 5 != 0) continue;
    const std::string text = text_of({point});
    wrong += expected(text) != text;
    // Nothing composes with it as its second part: these first parts compose with all that do.
    for (const char32_t before : {U'a', U'\u0915', U'\u1100', U'\uac00', U'\u3046', U'\u09c7', U'\u0b47'}) {
      if (point >= 0x10000) break;
      wrong += expected(text_of({before, point})) != text_of({before, point});
    }
  }
  CHECK(wrong == 0);
  CHECK(alone > 60000);
}

TEST_CASE("drawn text as utf8proc has it") {
  NormalForm form;
  DrawnText drawn(3);
  for (int i = 0; i < 3000; ++i) {
    std::string text = drawn.nasty(drawn.below(12));
    for (std::size_t k = drawn.below(6); k > 0; --k) {
      const auto point =
          static_cast<char32_t>(drawn.below(2) == 0 ? 0x300 + drawn.below(0x70) : 0xa0 + drawn.below(0x3000));
      append_point(text, point);
    }
    INFO(escaped(text));
    REQUIRE(form.compose(text) == expected(text));
  }
}

TEST_CASE("a megabyte of marks takes no quadratic time") {
  std::string text = "a";
  for (int i = 0; i < 250'000; ++i) text += "\u0301\u0323";
  NormalForm form;
  CHECK(form.compose(text).substr(0, 5) == "\u1ea1\u0323");  // one dot composes, the others follow
}
