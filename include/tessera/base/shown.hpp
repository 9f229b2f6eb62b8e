#pragma once
// Text from foreign files in messages, made safe for a terminal: no control sequences.

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

/// Shows a name or value from a file: at most `most` bytes (then "..."). Every control character and every byte that is
/// not UTF-8 becomes ?.
std::string shown(std::string_view name, std::size_t most = 80);

/// Shows a whole message: as `shown`, but of any length, with its line ends and tabs.
std::string printable(std::string_view text);

/// Returns whether files can hold the text: valid UTF-8 without control characters.
bool is_plain_text(std::string_view text);

/// Quotes a user's text for a message: unprintable bytes as \xNN, cut after 80 bytes.
std::string in_quotes(std::string_view text);

}  // namespace tessera
