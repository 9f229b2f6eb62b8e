#pragma once
// Stands for the header of the same name in include/: the libraries' functions are the emulator's, linked into the
// program, and nothing is opened.

#include "tessera/backend/dynamic_library.hpp"

namespace tessera {

inline DynamicLibrary open_cuda_library(const LibrarySearch&) { return {}; }

}  // namespace tessera

#define TESSERA_LIBRARY_FUNCTION(library, name) (static_cast<void>(library), &::name)
