#pragma once
// UTF-8.

#include <cstddef>
#include <string_view>

namespace tessera {

/// Returns the length in bytes of the UTF-8 sequence at the start of `text` (not empty); 0 if it is invalid. Overlong
/// forms, surrogates and code points beyond U+10FFFF are invalid.
std::size_t utf8_length(std::string_view text);

/// Returns where the valid part that begins at `at` ends: the text's size if all of it is valid.
std::size_t valid_utf8_end(std::string_view text, std::size_t at = 0);

}  // namespace tessera
