#pragma once
// From the bytes of tokens to text that may be shown.

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Takes the bytes of one token after the other and returns valid UTF-8. Invalid bytes become U+FFFD, one for each
/// maximal ill-formed part. It holds back incomplete characters, and text that may become a stop string.
class TextStream {
 public:
  /// `stops`: strings that end the text and do not belong to it; none of them empty.
  explicit TextStream(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// Returns the text that the bytes bring, maybe empty.
  std::string push(std::string_view bytes);
  /// Returns the text that was held back; an incomplete character becomes U+FFFD. Nothing may be pushed afterwards.
  std::string finish();
  /// Returns whether a stop string came.
  bool stopped() const { return stopped_; }

 private:
  void decode(bool last);
  std::string show(bool last);

  std::vector<std::string> stops_;
  std::string bytes_;  ///< of a character that is not complete
  std::string text_;   ///< held back
  bool stopped_ = false;
};

/// Returns the length of the UTF-8 sequence, or of the maximal ill-formed part, at the start of `bytes` (not empty).
/// 0: more bytes may complete it.
struct Utf8Piece {
  std::size_t length = 0;
  bool valid = false;
};
Utf8Piece next_utf8(std::string_view bytes);

}  // namespace tessera
