#pragma once
// Where this program lies, and what is installed with it.

#include <filesystem>
#include <initializer_list>

namespace tessera {

/// Returns the file of this program, also where a bundle's loader has started it. IoError.
std::filesystem::path own_executable();

/// Returns the first of `places`, relative paths, that exists in a folder above this program: "share/tessera/X" of an
/// installation, "X" of the sources. Empty if there is none.
std::filesystem::path installed(std::initializer_list<const char*> places);

}  // namespace tessera
