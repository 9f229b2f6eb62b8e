#include <catch2/catch.hpp>

#include "tessera/base/utf8.hpp"
#include "tessera/generate/text_stream.hpp"

using namespace tessera;

namespace {

/// Pushes pieces; returns what each brought, then what finish() brought.
std::vector<std::string> shown(const std::vector<std::string>& pieces, const std::vector<std::string>& stops = {}) {
  TextStream stream(stops);
  std::vector<std::string> out;
  for (const std::string& piece : pieces) out.push_back(stream.push(piece));
  out.push_back(stream.finish());
  return out;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string all;
  for (const std::string& piece : pieces) all += piece;
  return all;
}

/// Returns the bytes one by one.
std::vector<std::string> bytes_of(const std::string& text) {
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  return bytes;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a character is shown when its last byte came") {
  CHECK(shown({"a", "\xe2\x82", "\xac", "b"}) == Texts{"a", "", "€", "b", ""});
  CHECK(shown({"\xf0", "\x9f", "\x98", "\x80!"}) == Texts{"", "", "", "😀!", ""});
}

TEST_CASE("invalid bytes become U+FFFD as in Python") {
  // Each with bytes(...).decode("utf-8", "replace").
  const std::pair<std::string, std::string> cases[] = {
      {"\xff\x41", "\xef\xbf\xbd\x41"},
      {"\xe2\x82\x41", "\xef\xbf\xbd\x41"},
      {"\xf0\x9f\x98", "\xef\xbf\xbd"},
      {"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
      {"\x80\xe2\x82\xac\xe2", "\xef\xbf\xbd€\xef\xbf\xbd"}};
  for (const auto& [bytes, text] : cases) {
    CHECK(joined(shown({bytes})) == text);
    CHECK(joined(shown(bytes_of(bytes))) == text);
  }
}

TEST_CASE("whatever the bytes are, every piece that is shown is valid UTF-8") {
  std::uint32_t state = 5;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (int i = 0; i < 12; ++i) {
      state = state * 1664525u + 1013904223u;
      constexpr unsigned char kNasty[] = {0x41, 0x80, 0xbf, 0xc2, 0xe0, 0xa0, 0xed, 0xef, 0xf0, 0x90, 0xf4, 0xff};
      bytes += static_cast<char>(kNasty[(state >> 24) % sizeof(kNasty)]);
    }
    const Texts one = shown({bytes}), many = shown(bytes_of(bytes));
    CHECK(joined(one) == joined(many));
    for (const std::string& piece : many) {
      for (std::string_view rest = piece; !rest.empty();) {
        const std::size_t length = utf8_length(rest);
        REQUIRE(length > 0);
        rest.remove_prefix(length);
      }
    }
  }
}

TEST_CASE("a stop string ends the text before it, also across the borders of tokens") {
  CHECK(shown({"one", "\n", "\ntwo"}, {"\n\n"}) == Texts{"one", "", "", ""});
  CHECK(shown({"aEN", "DER", "END", "x"}, {"END"}) == Texts{"a", "", "", "", ""});
  CHECK(shown({"aEN", "Y", "END"}, {"END"}) == Texts{"a", "ENY", "", ""});
  // The character that begins the stop string is cut by tokens too.
  CHECK(shown({"x\xe2\x82", "\xac", "!"}, {"€!"}) == Texts{"x", "", "", ""});
  TextStream stream({"b", "c"});
  CHECK(stream.push("acb") == "a");
  CHECK(stream.stopped());
  CHECK(stream.push("more").empty());
}

TEST_CASE("what might have become a stop string is shown at the end") {
  CHECK(shown({"x", "EN"}, {"END"}) == Texts{"x", "", "EN"});
  CHECK(shown({"abab"}, {"ababc", "bb"}) == Texts{"", "abab"});
}
