#include "tokenizer/code_points.hpp"

#include <utf8proc.h>

#include <array>

#include "tessera/base/utf8.hpp"

namespace tessera {

DecodedPoint first_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xe0) return {(lead & 0x1f) << 6 | (byte(1) & 0x3f), 2};
  if (lead < 0xf0) return {(lead & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f), 4};
}

DecodedPoint last_point(std::string_view text) {
  std::size_t length = 1;
  while (length < 4 && length < text.size() && (static_cast<unsigned char>(text[text.size() - length]) & 0xc0) == 0x80)
    ++length;
  const std::string_view last = text.substr(text.size() - length);
  return utf8_length(last) == length ? first_point(last) : DecodedPoint{kReplacement, 1};
}

void append_point(std::string& text, char32_t point) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(point), bytes.data());
  text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(size));
}

bool is_word_character(char32_t point) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:  // joiners, and the symbols among Other_Alphabetic
      return point == 0x200c || point == 0x200d || (point >= 0x24b6 && point <= 0x24e9) ||
             (point >= 0x1f130 && point <= 0x1f149) || (point >= 0x1f150 && point <= 0x1f169) ||
             (point >= 0x1f170 && point <= 0x1f189);
  }
}

namespace {

constexpr std::string_view kReplacementText = "\xef\xbf\xbd";

/// Returns the length of the longest part at the start of invalid text that could begin a character; at least 1.
std::size_t ill_formed_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned lead = byte(0);
  if (lead < 0xe0 || lead > 0xf4) return 1;
  const unsigned lowest = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned highest = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < lowest || byte(1) > highest) return 1;
  return lead >= 0xf0 && (byte(2) & 0xc0) == 0x80 ? 3 : 2;
}

}  // namespace

std::string_view well_formed(std::string_view text, std::string& scratch) {
  std::size_t at = valid_utf8_end(text, 0);
  if (at == text.size()) return text;
  scratch.assign(text.substr(0, at));
  while (at < text.size()) {
    scratch += kReplacementText;
    at += ill_formed_length(text.substr(at));
    const std::size_t end = valid_utf8_end(text, at);
    scratch += text.substr(at, end - at);
    at = end;
  }
  return scratch;
}

}  // namespace tessera
