#pragma once
// Shared libraries that are looked for when they are wanted, not when the program starts: cuBLASLt, NCCL, NVML. A
// machine without them still starts the program, and a bundle need not carry them.

#include <string>
#include <vector>

#include "tessera/base/error.hpp"

namespace tessera {

/// What to look for.
struct LibrarySearch {
  std::string what;                          ///< for messages: "cuBLASLt"
  std::vector<std::string> names;            ///< file names, the best first: "libcublasLt.so.13", ...
  std::vector<std::string> python_packages;  ///< folders under site-packages/nvidia that may hold it: "cu13", "cublas"
};

/// Where `search.names` are tried, in order: the folders of TESSERA_LIBRARY_PATH (colons between them; each may also be
/// a Python site-packages folder, or a CUDA toolkit), the system's own search, $CUDA_HOME and /usr/local/cuda* (lib64),
/// and the Python packages of NVIDIA under $VIRTUAL_ENV, $CONDA_PREFIX, ~/.local, /usr/local and /usr.
std::vector<std::string> library_candidates(const LibrarySearch& search);

/// An open library; closed when the object goes. Functions taken from it must not outlive it. Move-only.
class DynamicLibrary {
 public:
  DynamicLibrary() = default;  ///< nothing is open
  /// UsageError when no candidate can be opened: names all that were tried, with the first reason.
  static DynamicLibrary open(const LibrarySearch& search);
  ~DynamicLibrary();
  DynamicLibrary(DynamicLibrary&& other) noexcept;
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept;
  DynamicLibrary(const DynamicLibrary&) = delete;
  DynamicLibrary& operator=(const DynamicLibrary&) = delete;

  /// The candidate that was opened.
  const std::string& path() const { return path_; }
  /// The address of a function; UsageError when the library has not got it (too old).
  void* symbol(const char* name) const;
  /// The same, null when the library has not got it.
  void* find(const char* name) const;

  template <class Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(symbol(name));
  }

 private:
  DynamicLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace tessera
