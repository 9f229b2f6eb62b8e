#include "tessera/base/shown.hpp"

#include <algorithm>

namespace tessera {

namespace {

/// Bytes of the UTF-8 character that `text` (not empty) begins with; 0 where it is none. Overlong forms and surrogates
/// pass: terminals show them as errors.
std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = first < 0x80                     ? 1
                            : first >= 0xc2 && first <= 0xdf ? 2
                            : first >= 0xe0 && first <= 0xef ? 3
                            : first >= 0xf0 && first <= 0xf4 ? 4
                                                             : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  const auto is_continued = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  return std::ranges::all_of(text.substr(1, bytes - 1), is_continued) ? bytes : 0;
}

/// C0 and C1 control characters and DEL.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

std::string without_controls(std::string_view text, std::string_view kept) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(bytes, 1));
    const bool is_kept = kept.find(character) != std::string_view::npos;
    out += bytes == 0 || (is_control(character) && !is_kept) ? "?" : character;
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace

std::string shown(std::string_view name, std::size_t most) {
  std::size_t length = std::min(name.size(), most);
  // Not in the middle of a character.
  while (length < name.size() && length > 0 && (static_cast<unsigned char>(name[length]) & 0xc0) == 0x80) --length;
  return without_controls(name.substr(0, length), "") + (length < name.size() ? "..." : "");
}

std::string printable(std::string_view text) { return without_controls(text, "\n\t"); }

}  // namespace tessera
