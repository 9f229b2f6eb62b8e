#pragma once
// JSON as Python writes and reads it: with NaN and Infinity, and with surrogates alone in strings.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tessera {

/// Rewrites text that comes in parts so that it is JSON, and keeps its length: NaN, Infinity and -Infinity become zeros
/// that nobody writes, and the escape of a surrogate without its other half becomes that of U+FFFD.
class PythonJson {
 public:
  /// Returns a number as it stood before.
  static std::string_view original(std::string_view number);
  /// Returns whether a whole text may need it, which is rare.
  static bool may_need(std::string_view text);
  /// Rewrites `text` up to the returned position. What lies behind it has to come again, with what follows, unless the
  /// text has `ended`: then nothing does.
  std::size_t rewrite(std::span<char> text, bool ended);
  /// Returns how many surrogates were replaced.
  std::int64_t surrogates() const { return surrogates_; }

 private:
  std::size_t rewrite_escape(std::span<char> text);

  bool in_string_ = false;
  char before_ = ' ';  ///< the character before, outside of strings
  std::int64_t surrogates_ = 0;
};

}  // namespace tessera
