#pragma once
// What fuzz targets share. A target is a reader of data from outside, given any bytes as libFuzzer's entry point. It
// may end with an error for the user. Any other exception, an internal error, a fault that a sanitizer sees, too much
// memory or too much time is a finding.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace tessera::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Writes a file of this process in memory, or replaces it. Returns its path.
std::filesystem::path write_input(const std::string& name, std::string_view bytes);

/// Splits an input at its lines of "----", as the targets of several files do.
std::vector<std::string_view> parts_of(std::string_view input);

/// Runs a reader, and lets errors for users pass.
template <class Reader>
void read_hostile(const Reader& reader) {
  try {
    reader();
  } catch (const Error& error) {
    if (error.code() == ExitCode::internal) throw;
  }
}

/// Throws what is a finding unless it holds.
inline void require(bool holds, const char* what) {
  if (!holds) throw InternalError("{}", what);
}

}  // namespace tessera::fuzz
