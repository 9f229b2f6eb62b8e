#pragma once
// Text from files of others in messages: a terminal must not take it for orders.

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

/// A name or value from a file: at most `most` bytes (then "..."), every control character and every byte that is no
/// UTF-8 as ?.
std::string shown(std::string_view name, std::size_t most = 80);

/// A whole message: as shown, but of any length, with its line ends and tabs.
std::string printable(std::string_view text);

}  // namespace tessera
