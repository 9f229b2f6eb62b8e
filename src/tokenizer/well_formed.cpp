#include "tokenizer/well_formed.hpp"

#include <cstdint>
#include <cstring>

#include "tessera/base/utf8.hpp"

namespace tessera {

namespace {

constexpr std::string_view kReplacementText = "\xef\xbf\xbd";

std::size_t skip_ascii(std::string_view text, std::size_t at) {
  std::uint64_t eight = 0;
  for (; at + sizeof(eight) <= text.size(); at += sizeof(eight)) {
    std::memcpy(&eight, text.data() + at, sizeof(eight));
    if ((eight & 0x8080808080808080u) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

/// Returns where the valid part that begins at `at` ends.
std::size_t valid_until(std::string_view text, std::size_t at) {
  while ((at = skip_ascii(text, at)) < text.size()) {
    do {
      const std::size_t length = utf8_length(text.substr(at));
      if (length == 0) return at;
      at += length;
    } while (at < text.size() && static_cast<unsigned char>(text[at]) >= 0x80);
  }
  return at;
}

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
  std::size_t at = valid_until(text, 0);
  if (at == text.size()) return text;
  scratch.assign(text.substr(0, at));
  while (at < text.size()) {
    scratch += kReplacementText;
    at += ill_formed_length(text.substr(at));
    const std::size_t end = valid_until(text, at);
    scratch += text.substr(at, end - at);
    at = end;
  }
  return scratch;
}

}  // namespace tessera
