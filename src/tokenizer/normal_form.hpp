#pragma once
// Unicode's normal form C.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// True where a code point is its own normal form, and neither moves nor joins the one before it. False for some of
/// those too: a quick answer for common text.
bool stays_alone(char32_t point);

/// Brings text into normal form C; keeps its scratch between calls. Takes time linear in the text, apart from sorting
/// runs of marks.
class NormalForm {
 public:
  /// Returns valid UTF-8 in normal form: `text` itself where that changes nothing, else the scratch. `text` may be what
  /// it returned before.
  std::string_view compose(std::string_view text);

 private:
  void append_composed(std::string_view run);

  std::string composed_;
  std::vector<std::int32_t> points_;
};

}  // namespace tessera
