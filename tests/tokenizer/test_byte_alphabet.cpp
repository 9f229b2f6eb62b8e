#include <catch2/catch.hpp>
#include <set>

#include "tokenizer/byte_alphabet.hpp"

using namespace tessera;

TEST_CASE("every byte has a character of its own, and comes back") {
  std::set<std::string> all;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string spelling(spelling_of(static_cast<unsigned char>(byte)));
    CHECK(all.insert(spelling).second);
    CHECK(bytes_of_spelling(spelling) == std::string(1, static_cast<char>(byte)));
  }
  CHECK(bytes_of_spelling("") == "");
}

TEST_CASE("GPT-2's spellings") {
  CHECK(spelling_of(' ') == "\u0120");
  CHECK(spelling_of('\n') == "\u010a");
  CHECK(spelling_of('A') == "A");
  CHECK(spelling_of(0xad) == "\u0143");
  CHECK(bytes_of_spelling("\u0120the") == " the");
  CHECK(bytes_of_spelling("\u00c3\u00a9") == "\u00e9");
}

TEST_CASE("text that is no spelling") {
  CHECK_FALSE(bytes_of_spelling("a b"));     // a space itself
  CHECK_FALSE(bytes_of_spelling("\u4e2d"));  // beyond the table
  CHECK_FALSE(bytes_of_spelling("\u0144"));  // one after its last character
  CHECK_FALSE(bytes_of_spelling("\U0001f600"));
}
