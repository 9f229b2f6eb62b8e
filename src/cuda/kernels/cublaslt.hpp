#pragma once
// The functions of cuBLASLt used here, found at run time, and owners of its objects.

#include <cublasLt.h>

#include <memory>

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

/// An object of cuBLASLt with its destroy function.
template <class Handle>
class CublasLtOwner {
 public:
  CublasLtOwner() = default;
  CublasLtOwner(Handle handle, cublasStatus_t (*destroy)(Handle)) : owned_(handle, destroy) {}
  Handle get() const { return owned_.get(); }

 private:
  struct Destroy {
    Destroy() = default;
    Destroy(cublasStatus_t (*f)(Handle)) : function(f) {}  // NOLINT(google-explicit-constructor)
    void operator()(Handle handle) const { static_cast<void>(function(handle)); }
    cublasStatus_t (*function)(Handle) = nullptr;
  };
  std::unique_ptr<std::remove_pointer_t<Handle>, Destroy> owned_;
};

}  // namespace tessera
