#pragma once
// cuDNN's backend interface, found at run time: its functions, and owners of its descriptors.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/kernels/cudnn_abi.hpp"
#include "tessera/base/unique_handle.hpp"
#include "tessera/cuda/library.hpp"

struct cudnnContext;
// As cudnn_graph.h declares them, with int for its enumerations.
// NOLINTBEGIN(readability-identifier-naming): the library's names
extern "C" {
std::size_t cudnnGetVersion();
void cudnnGetLastErrorString(char* message, std::size_t size);
int cudnnCreate(cudnnContext** handle);
int cudnnDestroy(cudnnContext* handle);
int cudnnSetStream(cudnnContext* handle, cudaStream_t stream);
int cudnnBackendCreateDescriptor(int kind, void** descriptor);
int cudnnBackendDestroyDescriptor(void* descriptor);
int cudnnBackendSetAttribute(void* descriptor, int name, int type, std::int64_t count, const void* values);
int cudnnBackendGetAttribute(void* descriptor, int name, int type, std::int64_t wanted, std::int64_t* count,
                             void* values);
int cudnnBackendFinalize(void* descriptor);
int cudnnBackendExecute(cudnnContext* handle, void* plan, void* pack);
}
// NOLINTEND(readability-identifier-naming)

namespace tessera {

struct Cudnn {
  Cudnn();  ///< UsageError when the library is not found

  DynamicLibrary library;
// NOLINTNEXTLINE(bugprone-macro-parentheses): a member is declared
#define TESSERA_CUDNN_FUNCTION(member, name) decltype(&::name) member = TESSERA_LIBRARY_FUNCTION(library, name)
  TESSERA_CUDNN_FUNCTION(version, cudnnGetVersion);
  TESSERA_CUDNN_FUNCTION(last_error, cudnnGetLastErrorString);
  TESSERA_CUDNN_FUNCTION(create, cudnnCreate);
  TESSERA_CUDNN_FUNCTION(destroy, cudnnDestroy);
  TESSERA_CUDNN_FUNCTION(set_stream, cudnnSetStream);
  TESSERA_CUDNN_FUNCTION(create_descriptor, cudnnBackendCreateDescriptor);
  TESSERA_CUDNN_FUNCTION(destroy_descriptor, cudnnBackendDestroyDescriptor);
  TESSERA_CUDNN_FUNCTION(set, cudnnBackendSetAttribute);
  TESSERA_CUDNN_FUNCTION(get, cudnnBackendGetAttribute);
  TESSERA_CUDNN_FUNCTION(finalize, cudnnBackendFinalize);
  TESSERA_CUDNN_FUNCTION(execute, cudnnBackendExecute);
#undef TESSERA_CUDNN_FUNCTION

  std::string version_text() const;  ///< "9.19.0"
  /// Throws CudnnRefusal, with the library's own reason, if a call failed.
  void check(int status, const char* call) const;
};

/// The library rejects the request; the text is its own reason.
struct CudnnRefusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A descriptor; move-only. It lives no longer than `library`.
class CudnnDescriptor {
 public:
  CudnnDescriptor(const Cudnn& library, cudnn::Kind kind);

  template <class T>
  void set(cudnn::Attribute name, cudnn::Type type, const std::vector<T>& values) {
    set_raw(name, type, static_cast<std::int64_t>(values.size()), values.data());
  }
  template <class T>
  void set(cudnn::Attribute name, cudnn::Type type, const T& value) {
    set_raw(name, type, 1, &value);
  }
  void set(cudnn::Attribute name, const CudnnDescriptor& other) { set(name, cudnn::Type::descriptor, other.get()); }
  void set_text(cudnn::Attribute name, const std::string& text);
  void finalize();
  std::int64_t get_integer(cudnn::Attribute name) const;
  void* get() const { return owned_.get(); }

 private:
  struct Destroy {
    decltype(Cudnn::destroy_descriptor) function = nullptr;
    static void* none() { return nullptr; }
    void operator()(void* descriptor) const { static_cast<void>(function(descriptor)); }
  };
  void set_raw(cudnn::Attribute name, cudnn::Type type, std::int64_t count, const void* values);
  const Cudnn* library_;
  UniqueHandle<void*, Destroy> owned_;
};

/// The target of plans: the device of a handle, or one that a text describes and that need not be there.
struct CudnnTarget {
  cudnnContext* handle = nullptr;
  const CudnnDescriptor* device_properties = nullptr;
};

/// The plan of a graph.
struct CudnnPlan {
  CudnnDescriptor config;  ///< it is not documented that it may go before the plan
  CudnnDescriptor plan;
  std::int64_t workspace_bytes = 0;
};

/// Returns the best plan for a finalized graph that needs at most this much workspace. CudnnRefusal if there is none.
CudnnPlan make_cudnn_plan(const Cudnn& library, const CudnnTarget& target, const CudnnDescriptor& graph,
                          std::int64_t most_workspace_bytes);

}  // namespace tessera
