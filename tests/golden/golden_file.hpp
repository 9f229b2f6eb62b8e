#pragma once
// Golden files: a line an entry, "key | value". TESSERA_UPDATE=1 writes them anew. Do that only on purpose: these files
// say what did not change.

#include <string>
#include <vector>

namespace tessera::testing {

struct GoldenEntry {
  std::string key;    ///< what was asked for; unique in its file
  std::string value;  ///< what came of it
};

/// Compares with tests/golden/NAME and fails with both values where they differ, and where an entry is missing there.
/// What is in the file alone fails too, unless only `some` entries were made. Returns the positions that differ.
std::vector<std::size_t> check_golden(const std::string& name, const std::vector<GoldenEntry>& entries,
                                      bool some = false);

/// Whether tests/golden/NAME is there, or is to be written now.
bool has_golden(const std::string& name);

/// XXH3 of some bytes, as 16 hexadecimal digits.
std::string hash_of(const void* bytes, std::size_t count);

/// Where a failing test leaves what it made: a folder of the build.
std::string output_folder();

}  // namespace tessera::testing
