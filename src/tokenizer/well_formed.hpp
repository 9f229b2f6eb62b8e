#pragma once
// Text as valid UTF-8.

#include <string>
#include <string_view>

namespace tessera {

/// Returns `text` if it is valid UTF-8. Otherwise writes it into `scratch` and returns that: each maximal ill-formed
/// part is U+FFFD (Unicode 15, section 3.9; Python's errors="replace").
std::string_view well_formed(std::string_view text, std::string& scratch);

}  // namespace tessera
