#include <catch2/catch.hpp>
#include <string>

#include "tessera/base/utf8.hpp"

using namespace tessera;

namespace {

/// The UTF-8 form of a code point, whether or not there may be one: the bits of a number below 2^21 in `bytes` bytes.
std::string encoded(std::uint32_t code, std::size_t bytes) {
  if (bytes == 1) return {static_cast<char>(code)};
  std::string text;
  for (std::size_t i = 1; i < bytes; ++i, code >>= 6)
    text.insert(text.begin(), static_cast<char>(0x80 | (code & 0x3f)));
  const std::uint32_t lead = 0xf00u >> bytes & 0xffu;  // as many ones as there are bytes
  return static_cast<char>(lead | code) + text;
}

}  // namespace

TEST_CASE("Every code point is accepted in its shortest form only, and surrogates in none") {
  for (std::uint32_t code = 0; code < 0x200000; ++code) {
    const std::size_t shortest = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    const bool allowed = code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    const std::size_t length = utf8_length(encoded(code, shortest));
    if (length != (allowed ? shortest : 0)) FAIL("code point " << code << " has length " << length);
    if (shortest < 4 && utf8_length(encoded(code, shortest + 1)) != 0) FAIL("overlong form of " << code);
  }
}

TEST_CASE("Cut sequences and stray bytes have no length, what follows a character does not matter") {
  const std::string euro = "\xe2\x82\xac", smile = "\xf0\x9f\x98\x80";
  CHECK(utf8_length(euro + "\xff") == 3);
  CHECK(utf8_length("a\xff") == 1);
  for (std::size_t i = 1; i < euro.size(); ++i) CHECK(utf8_length(euro.substr(0, i)) == 0);
  for (std::size_t i = 1; i < smile.size(); ++i) {
    CHECK(utf8_length(smile.substr(0, i)) == 0);
    CHECK(utf8_length(smile.substr(0, i) + "abc") == 0);
  }
  for (const char* stray : {"\x80", "\xbf", "\xf8\x88\x80\x80\x80", "\xfe", "\xff"}) CHECK(utf8_length(stray) == 0);
}
