#pragma once
// UTF-8.

#include <cstddef>
#include <string_view>

namespace tessera {

/// How many bytes the UTF-8 sequence at the start of `text` (not empty) has; 0 when it is not one. Overlong forms,
/// surrogates and what lies beyond U+10FFFF are none.
std::size_t utf8_length(std::string_view text);

}  // namespace tessera
