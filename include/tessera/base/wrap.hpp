#pragma once
// Lines of text that fit a width.

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

/// The width of a terminal where none is known, and of the lines of a log.
inline constexpr std::size_t kTextWidth = 80;

/// Breaks lines that are longer than `width` at blanks, and in lists like a|b|c; what follows is indented by `indent`
/// columns, behind which lines are not broken. "name = value" stays together, and so does a word that is too long.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width = kTextWidth);

}  // namespace tessera
