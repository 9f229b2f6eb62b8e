#pragma once
// The functions of cuBLASLt used here, found at run time, and owners of its objects.

#include <cublasLt.h>

#include "tessera/base/unique_handle.hpp"
#include "tessera/cuda/library.hpp"

namespace tessera {

struct CublasLt {
  CublasLt();  ///< UsageError when the library is not found

  DynamicLibrary library;
// NOLINTNEXTLINE(bugprone-macro-parentheses): a member is declared
#define TESSERA_CUBLASLT_FUNCTION(member, name) decltype(&::name) member = TESSERA_LIBRARY_FUNCTION(library, name)
  TESSERA_CUBLASLT_FUNCTION(create, cublasLtCreate);
  TESSERA_CUBLASLT_FUNCTION(destroy, cublasLtDestroy);
  TESSERA_CUBLASLT_FUNCTION(version, cublasLtGetVersion);
  TESSERA_CUBLASLT_FUNCTION(desc_create, cublasLtMatmulDescCreate);
  TESSERA_CUBLASLT_FUNCTION(desc_destroy, cublasLtMatmulDescDestroy);
  TESSERA_CUBLASLT_FUNCTION(desc_set, cublasLtMatmulDescSetAttribute);
  TESSERA_CUBLASLT_FUNCTION(layout_create, cublasLtMatrixLayoutCreate);
  TESSERA_CUBLASLT_FUNCTION(layout_destroy, cublasLtMatrixLayoutDestroy);
  TESSERA_CUBLASLT_FUNCTION(preference_create, cublasLtMatmulPreferenceCreate);
  TESSERA_CUBLASLT_FUNCTION(preference_destroy, cublasLtMatmulPreferenceDestroy);
  TESSERA_CUBLASLT_FUNCTION(preference_set, cublasLtMatmulPreferenceSetAttribute);
  TESSERA_CUBLASLT_FUNCTION(heuristic, cublasLtMatmulAlgoGetHeuristic);
  TESSERA_CUBLASLT_FUNCTION(check, cublasLtMatmulAlgoCheck);
  TESSERA_CUBLASLT_FUNCTION(matmul, cublasLtMatmul);
#undef TESSERA_CUBLASLT_FUNCTION
};

/// Throws DeviceError when a call failed.
void check_cublaslt(cublasStatus_t status, const char* call);

/// Ends an object of cuBLASLt by a function of the loaded library.
template <class Handle>
struct EndCublasLt {
  cublasStatus_t (*function)(Handle) = nullptr;
  static Handle none() { return nullptr; }
  void operator()(Handle handle) const { static_cast<void>(function(handle)); }
};
template <class Handle>
using CublasLtHandle = UniqueHandle<Handle, EndCublasLt<Handle>>;

}  // namespace tessera
