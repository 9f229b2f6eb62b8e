#pragma once
// Golden files: one line per entry, "key | value". TESSERA_UPDATE=1 rewrites them. Do that only on purpose, because
// these files say what did not change.

#include <string>
#include <vector>

namespace tessera::testing {

struct GoldenEntry {
  std::string key;    ///< the input; unique in its file
  std::string value;  ///< the result
};

/// Compares with tests/golden/NAME and fails with both values if they differ, or if an entry is missing there. Entries
/// of the file alone fail too, unless only `some` entries were made. Returns the positions that differ.
std::vector<std::size_t> check_golden(const std::string& name, const std::vector<GoldenEntry>& entries,
                                      bool some = false);

/// Whether tests/golden/NAME is there, or is to be written now.
bool has_golden(const std::string& name);

/// XXH3 of some bytes, as 16 hexadecimal digits.
std::string hash_of(const void* bytes, std::size_t count);

/// Returns where a failing test leaves its output: a folder of the build.
std::string output_folder();

}  // namespace tessera::testing
