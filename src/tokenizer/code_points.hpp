#pragma once
// Code points of valid UTF-8, and classes of them.

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

constexpr char32_t kReplacement = 0xfffd;

/// Returns the first code point of valid UTF-8 that is not empty, and its length in bytes.
struct DecodedPoint {
  char32_t point;
  std::size_t length;
};
DecodedPoint first_point(std::string_view text);

/// Returns the last code point of text that is not empty; U+FFFD where it does not end in a whole one.
DecodedPoint last_point(std::string_view text);

/// Appends a code point as UTF-8.
void append_point(std::string& text, char32_t point);

/// Unicode's property White_Space: what patterns call \s, without U+180E.
constexpr bool is_white_space(char32_t point) {
  if (point < 0x80) return point == ' ' || (point >= '\t' && point <= '\r');
  return point == 0x85 || point == 0xa0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200a) || point == 0x2028 ||
         point == 0x2029 || point == 0x202f || point == 0x205f || point == 0x3000;
}

/// True for characters of words (\w of the flag single_word): letters, marks, decimal digits, connectors, joiners.
bool is_word_character(char32_t point);

/// Returns `text` if it is valid UTF-8. Otherwise writes it into `scratch` and returns that: each maximal ill-formed
/// part is U+FFFD (Unicode 15, section 3.9; Python's errors="replace").
std::string_view well_formed(std::string_view text, std::string& scratch);

}  // namespace tessera
