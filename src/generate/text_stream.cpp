#include "tessera/generate/text_stream.hpp"

#include <algorithm>

#include "tessera/base/utf8.hpp"

namespace tessera {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

/// Returns whether some bytes after `bytes` (1 to 3 of them) make a valid UTF-8 sequence.
bool is_valid_start(std::string_view bytes) {
  // The bounds of the next byte depend only on the first, so trying the smallest and the largest byte is enough.
  for (const char next : {'\x80', '\x90', '\xa0', '\xbf'}) {
    std::string whole(bytes);
    while (whole.size() < 4) {
      whole += whole.size() == bytes.size() ? next : '\x80';
      if (utf8_length(whole) == whole.size()) return true;
    }
  }
  return false;
}

/// Returns how many of the last bytes of `text` begin `stop`.
std::size_t overlap(std::string_view text, std::string_view stop) {
  std::size_t length = std::min(text.size(), stop.size() - 1);
  while (length > 0 && !stop.starts_with(text.substr(text.size() - length))) --length;
  return length;
}

}  // namespace

Utf8Piece next_utf8(std::string_view bytes) {
  if (const std::size_t length = utf8_length(bytes)) return {length, true};
  std::size_t length = 1;  // of the longest start of a valid sequence
  while (length < 4 && length < bytes.size() && is_valid_start(bytes.substr(0, length + 1))) ++length;
  const bool may_go_on = length == bytes.size() && length < 4 && is_valid_start(bytes);
  return {may_go_on ? 0 : length, false};
}

std::string TextStream::push(std::string_view bytes) {
  if (stopped_) return {};
  bytes_ += bytes;
  decode(false);
  return show(false);
}

std::string TextStream::finish() {
  if (stopped_) return {};
  decode(true);
  return show(true);
}

/// Moves complete characters from bytes_ to text_; the `last` time all of them.
void TextStream::decode(bool last) {
  std::string_view rest = bytes_;
  while (!rest.empty()) {
    Utf8Piece piece = next_utf8(rest);
    if (piece.length == 0 && !last) break;
    if (piece.length == 0) piece.length = rest.size();
    text_ += piece.valid ? rest.substr(0, piece.length) : kReplacement;
    rest.remove_prefix(piece.length);
  }
  bytes_ = std::string(rest);
}

/// Takes from text_ everything that can no longer become a stop string.
std::string TextStream::show(bool last) {
  std::size_t end = text_.size();
  for (const std::string& stop : stops_) {
    const std::size_t at = text_.find(stop);
    if (at == std::string::npos || at >= end) continue;
    end = at;
    stopped_ = true;
  }
  std::size_t held = 0;
  if (!stopped_ && !last) {
    for (const std::string& stop : stops_) held = std::max(held, overlap(text_, stop));
  }
  std::string shown = text_.substr(0, end - held);
  text_ = stopped_ ? std::string() : text_.substr(end - held);
  return shown;
}

}  // namespace tessera
