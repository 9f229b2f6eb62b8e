#include <catch2/catch.hpp>

#include "tessera/base/shown.hpp"

using namespace tessera;

TEST_CASE("names of others hold no control characters and are short") {
  CHECK(shown("transformer.h.0.attn") == "transformer.h.0.attn");
  CHECK(shown("a\x1b[31mred\x07\n\t\x7f") == "a?[31mred????");
  CHECK(shown("\xc3\xa9 \xe2\x86\x92 \xf0\x9f\x98\x80") == "\xc3\xa9 \xe2\x86\x92 \xf0\x9f\x98\x80");
  CHECK(shown("\xc2\x9b"
              "2J") == "?2J");  // CSI as UTF-8
  CHECK(shown("\x9b"
              "2J \xff \xc3") == "?2J ? ?");  // and as a byte; no UTF-8
  CHECK(shown(std::string("a\0b", 3)) == "a?b");
  CHECK(shown("") == "");
  CHECK(shown(std::string(80, 'x')) == std::string(80, 'x'));
  CHECK(shown(std::string(81, 'x')) == std::string(80, 'x') + "...");
  CHECK(shown("abc\xc3\xa9", 4) == "abc...");
}

TEST_CASE("messages keep their lines, whatever their length") {
  CHECK(printable("one\n\ttwo\r\x1b]0;title\x07") == "one\n\ttwo??]0;title?");
  CHECK(printable(std::string(5000, 'x')).size() == 5000);
}
