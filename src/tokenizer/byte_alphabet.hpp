#pragma once
// GPT-2's table of bytes as printable characters, in which vocabularies of byte-level BPE are written: a space is Ġ.

#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// Returns the character of a byte, as UTF-8.
std::string_view spelling_of(unsigned char byte);

/// Returns the bytes that a token's spelling stands for; nothing if one of its characters is not in the table.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);

}  // namespace tessera
