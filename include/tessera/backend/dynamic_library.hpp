#pragma once
// Shared libraries that are loaded on demand, not at program start: cuBLASLt, NCCL, NVML. A machine without them still
// starts the program, and a bundle need not carry them.

#include <string>
#include <utility>
#include <vector>

#include "tessera/base/unique_handle.hpp"

namespace tessera {

/// Describes the library to find.
struct LibrarySearch {
  std::string what;                          ///< for messages: "cuBLASLt"
  std::vector<std::string> names;            ///< file names, the best first: "libcublasLt.so.13", ...
  std::vector<std::string> python_packages;  ///< folders under site-packages/nvidia that may hold it: "cu13", "cublas"
  /// Libraries that it loads by name when it needs them, dependencies first. They are opened from its own folder before
  /// it is, because the system's search or LD_LIBRARY_PATH may find another version, or none. If the folder has no file
  /// of a name, the files whose names begin with it are opened ("libx.so.13": "libx.so.13.0").
  std::vector<std::string> parts = {};
};

/// Returns the paths at which `search.names` are tried, in order:
///   the folders of TESSERA_LIBRARY_PATH, separated by colons (also Python site-packages folders, or CUDA toolkits)
///   the system's own search
///   $CUDA_HOME and /usr/local/cuda* (lib64)
///   NVIDIA's Python packages under $VIRTUAL_ENV, $CONDA_PREFIX, ~/.local, /usr/local and /usr
std::vector<std::string> library_candidates(const LibrarySearch& search);

/// An open library; closed with the object. Functions taken from it must not outlive it. Move-only.
class DynamicLibrary {
 public:
  DynamicLibrary() = default;  ///< nothing is open
  /// Opens the first candidate that loads. UsageError when none does: names all that were tried, with the first reason.
  static DynamicLibrary open(const LibrarySearch& search);

  /// Returns the candidate that was opened.
  const std::string& path() const { return path_; }
  /// Returns the address of a function; UsageError when the library does not have it (too old).
  void* symbol(const char* name) const;
  /// The same, but null when the library does not have it.
  void* find(const char* name) const;

  template <class Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(symbol(name));
  }

 private:
  DynamicLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  struct Close {
    static void* none() { return nullptr; }
    void operator()(void* handle) const;
  };
  UniqueHandle<void*, Close> handle_;
  std::string path_;
};

}  // namespace tessera
