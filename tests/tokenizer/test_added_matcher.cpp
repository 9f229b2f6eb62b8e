#include <catch2/catch.hpp>

#include "tokenizer/added_matcher.hpp"
#include "tokenizer/drawn_text.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

AddedToken token(std::string content, std::int32_t id, std::string_view flags = "") {
  AddedToken added;
  added.content = std::move(content);
  added.id = id;
  added.single_word = flags.find('w') != std::string_view::npos;
  added.lstrip = flags.find('l') != std::string_view::npos;
  added.rstrip = flags.find('r') != std::string_view::npos;
  return added;
}

/// "text|<7:token>|text"
std::string cut(const AddedMatcher& matcher, const std::string& text) {
  std::string all;
  matcher.cut(text, [&](const AddedPart& part) {
    if (!all.empty()) all += "|";
    all += part.id ? "<" + std::to_string(*part.id) + ":" + std::string(part.text) + ">" : std::string(part.text);
  });
  return all;
}

}  // namespace

TEST_CASE("the leftmost token, the longest of several") {
  const AddedMatcher matcher({token("<a>", 1), token("<a><b>", 2), token("a>", 3), token("<b>", 4)});
  CHECK(cut(matcher, "") == "");
  CHECK(cut(matcher, "x") == "x");
  CHECK(cut(matcher, "<a>") == "<1:<a>>");
  CHECK(cut(matcher, "x<a>y") == "x|<1:<a>>|y");
  CHECK(cut(matcher, "<a><b><b>") == "<2:<a><b>>|<4:<b>>");
  CHECK(cut(matcher, "<a><b") == "<1:<a>>|<b");
  CHECK(cut(matcher, "a><<a>") == "<3:a>>|<|<1:<a>>");
  CHECK(AddedMatcher({}).empty());
  CHECK(cut(AddedMatcher({}), "<a>") == "<a>");
}

TEST_CASE("tokens take white space with them") {
  CHECK(cut(AddedMatcher({token("<a>", 1, "l")}), "x \u3000\n<a> y") == "x|<1: \u3000\n<a>>| y");
  CHECK(cut(AddedMatcher({token("<a>", 1, "r")}), "x <a> \u3000\ny") == "x |<1:<a> \u3000\n>|y");
  CHECK(cut(AddedMatcher({token("<a>", 1, "lr")}), " <a> <a> ") == "<1: <a> >|<1:<a> >");
  CHECK(cut(AddedMatcher({token("<a>", 1, "l")}), "\u180e<a>") == "\u180e|<1:<a>>");
  CHECK(cut(AddedMatcher({token("<a>", 1, "r"), token("\n", 2, "l")}), "<a> \n\n<a>") == "<1:<a> \n\n>|<1:<a>>");
}

TEST_CASE("a single word is not a part of one") {
  const AddedMatcher matcher({token("word", 1, "w")});
  CHECK(cut(matcher, "word words sword word.") == "<1:word>| words sword |<1:word>|.");
  CHECK(cut(matcher, "\u00e9word word_ word\u0301 \u4e2dword -word-") ==
        "\u00e9word word_ word\u0301 \u4e2dword -|<1:word>|-");
}

TEST_CASE("white space as a token that takes white space takes linear time") {
  const AddedMatcher matcher({token("\n", 1, "r"), token("\t", 2, "l")});
  std::size_t parts = 0;
  matcher.cut(std::string(1'000'000, '\n') + "x" + std::string(1'000'000, '\t'),
              [&](const AddedPart& part) { parts += part.id ? 1 : 0; });
  CHECK(parts == 2'000'000);
}

TEST_CASE("nothing is lost where no flag is set") {
  const AddedMatcher matcher({token("<|endoftext|>", 1), token("<|", 2), token(" ", 3), token("\u00e9", 4)});
  DrawnText drawn(23);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = drawn.nasty(drawn.below(20));
    std::string back;
    matcher.cut(text, [&](const AddedPart& part) { back += part.text; });
    REQUIRE(back == text);
  }
}
