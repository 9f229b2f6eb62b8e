#pragma once
// Counts with their noun.

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace tessera {

/// Formats "1 rank", "2 ranks".
inline std::string counted(std::int64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace tessera
