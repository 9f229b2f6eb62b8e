#pragma once
// CUDA's larger libraries (cuBLASLt, NCCL) as tables of functions, looked up on first use.

#include "tessera/backend/dynamic_library.hpp"

namespace tessera {

/// Opens the library that TESSERA_LIBRARY_FUNCTION takes functions from. UsageError as DynamicLibrary::open.
inline DynamicLibrary open_cuda_library(const LibrarySearch& search) { return DynamicLibrary::open(search); }

}  // namespace tessera

/// A function of an open CUDA library by its name, typed as its header declares it:
/// `auto create = TESSERA_LIBRARY_FUNCTION(library, cublasLtCreate);`
#define TESSERA_LIBRARY_FUNCTION(library, name) ((library).function<decltype(&::name)>(#name))
