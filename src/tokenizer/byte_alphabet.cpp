#include "tokenizer/byte_alphabet.hpp"

#include <array>
#include <cstddef>

namespace tessera {

namespace {

/// Printable bytes of Latin-1 stand for themselves, the others for U+0100, U+0101, ... in order.
constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Character {
  std::array<char, 2> utf8{};
  unsigned char size = 0;
};

struct Table {
  std::array<Character, 256> of_byte{};
  std::array<short, 0x200> byte_of{};  ///< by code point; -1 where none
};

constexpr Table make_table() {
  Table table;
  table.byte_of.fill(-1);
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const unsigned point = stands_for_itself(byte) ? byte : next++;
    table.byte_of[point] = static_cast<short>(byte);
    if (point < 0x80) {
      table.of_byte[byte] = {{static_cast<char>(point), 0}, 1};
    } else {
      table.of_byte[byte] = {{static_cast<char>(0xc0 | (point >> 6)), static_cast<char>(0x80 | (point & 0x3f))}, 2};
    }
  }
  return table;
}

constexpr Table kTable = make_table();

}  // namespace

std::string_view spelling_of(unsigned char byte) {
  const Character& character = kTable.of_byte[byte];
  return {character.utf8.data(), character.size};
}

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  std::string bytes;
  for (std::size_t i = 0; i < spelling.size();) {
    unsigned point = static_cast<unsigned char>(spelling[i++]);
    if (point >= 0x80) {
      if ((point & 0xe0) != 0xc0 || i == spelling.size()) return std::nullopt;
      point = (point & 0x1f) << 6 | (static_cast<unsigned char>(spelling[i++]) & 0x3f);
    }
    if (point >= kTable.byte_of.size() || kTable.byte_of[point] < 0) return std::nullopt;
    bytes += static_cast<char>(kTable.byte_of[point]);
  }
  return bytes;
}

}  // namespace tessera
