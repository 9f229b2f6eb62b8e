#include "tessera/base/shown.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/utf8.hpp"

namespace tessera {

namespace {

/// Returns whether it is a C0 or C1 control character or DEL.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

std::string without_controls(std::string_view text, std::string_view kept) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bytes = utf8_length(text);
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

bool is_plain_text(std::string_view text) {
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    const auto length = utf8_length(text);
    if (byte < 0x20 || byte == 0x7f || length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 80;
  const bool plain = is_plain_text(text);
  std::string out = "'";
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && (!plain || text.size() > longest))) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + (text.size() > longest ? "...'" : "'");
}

}  // namespace tessera
