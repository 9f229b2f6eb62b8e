#pragma once
// CUDA's larger libraries (cuBLASLt, NCCL) as tables of functions, looked up on first use. In the tests' emulator the
// same tables hold the emulator's own functions, and nothing is opened.

#include "tessera/backend/dynamic_library.hpp"

namespace tessera {

/// Opens the library that TESSERA_LIBRARY_FUNCTION takes functions from. UsageError as DynamicLibrary::open.
inline DynamicLibrary open_cuda_library([[maybe_unused]] const LibrarySearch& search) {
#if defined(TESSERA_CUDA_EMULATED)
  return {};
#else
  return DynamicLibrary::open(search);
#endif
}

}  // namespace tessera

/// A function of an open CUDA library by its name, typed as its header declares it:
/// `auto create = TESSERA_LIBRARY_FUNCTION(library, cublasLtCreate);`
#if defined(TESSERA_CUDA_EMULATED)
#define TESSERA_LIBRARY_FUNCTION(library, name) (static_cast<void>(library), &::name)
#else
#define TESSERA_LIBRARY_FUNCTION(library, name) ((library).function<decltype(&::name)>(#name))
#endif
