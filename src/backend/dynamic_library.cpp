#include "tessera/backend/dynamic_library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "tessera/base/environment.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

/// Returns the files and folders in `parent` whose names start with `prefix`, the last name first (the newest version).
std::vector<fs::path> entries_like(const fs::path& parent, const std::string& prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(prefix)) found.push_back(it->path());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

/// Lists Python's package folders under an installation prefix.
std::vector<fs::path> package_folders(const fs::path& prefix) {
  std::vector<fs::path> found;
  for (const fs::path& python : entries_like(prefix / "lib", "python")) {
    found.push_back(python / "site-packages");
    found.push_back(python / "dist-packages");
  }
  return found;
}

class Candidates {
 public:
  explicit Candidates(const LibrarySearch& search) : search_(search) {}

  void add(const fs::path& folder) {
    for (const std::string& name : search_.names) paths_.push_back((folder / name).string());
  }
  void add_toolkit(const fs::path& root) { add(root / "lib64"), add(root / "targets" / "x86_64-linux" / "lib"); }
  void add_packages(const fs::path& packages) {
    for (const std::string& package : search_.python_packages) add(packages / "nvidia" / package / "lib");
  }
  /// Returns the files that exist (each once); bare names are left to the system's search.
  std::vector<std::string> existing() const {
    std::vector<std::string> found;
    for (const std::string& path : paths_) {
      std::error_code error;
      const bool there = path.find('/') == std::string::npos || fs::exists(path, error);
      if (there && std::find(found.begin(), found.end(), path) == found.end()) found.push_back(path);
    }
    return found;
  }

 private:
  const LibrarySearch& search_;
  std::vector<std::string> paths_;
};

/// Opens the parts that lie in the library's folder and returns their handles. A missing part is left to the library,
/// which reports it.
std::vector<void*> open_parts(const fs::path& path, const std::vector<std::string>& parts) {
  std::vector<void*> open;
  if (!path.has_parent_path()) return open;
  for (const std::string& part : parts) {
    std::error_code error;
    const fs::path file = path.parent_path() / part;
    const bool is_there = fs::exists(file, error);
    for (const fs::path& one : is_there ? std::vector{file} : entries_like(path.parent_path(), part))
      open.push_back(dlopen(one.c_str(), RTLD_LAZY | RTLD_LOCAL));
  }
  std::erase(open, nullptr);
  return open;
}

}  // namespace

std::vector<std::string> library_candidates(const LibrarySearch& search) {
  Candidates candidates(search);
  std::istringstream folders(variable("TESSERA_LIBRARY_PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.empty()) continue;
    candidates.add(folder);
    candidates.add_toolkit(folder);
    candidates.add_packages(folder);
  }
  candidates.add("");
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string home = variable(name); !home.empty()) candidates.add_toolkit(home);
  }
  for (const fs::path& toolkit : entries_like("/usr/local", "cuda")) candidates.add_toolkit(toolkit);
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string prefix = variable(name); !prefix.empty()) {
      for (const fs::path& packages : package_folders(prefix)) candidates.add_packages(packages);
    }
  }
  if (const std::string home = variable("HOME"); !home.empty()) {
    for (const fs::path& packages : package_folders(fs::path(home) / ".local")) candidates.add_packages(packages);
  }
  for (const char* prefix : {"/usr/local", "/usr"}) {
    for (const fs::path& packages : package_folders(prefix)) candidates.add_packages(packages);
  }
  return candidates.existing();
}

DynamicLibrary DynamicLibrary::open(const LibrarySearch& search) {
  // Never unmapped, because GPU libraries leave handlers behind that run when the process ends.
  constexpr int kHowToOpen = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  std::string tried;
  for (const std::string& candidate : library_candidates(search)) {
    const std::vector<void*> parts = open_parts(candidate, search.parts);
    if (void* const handle = dlopen(candidate.c_str(), kHowToOpen)) return {handle, candidate};  // and keeps its parts
    const char* const reason = dlerror();  // NOLINT(concurrency-mt-unsafe): of this thread's last call
    tried += fmt::format("\n  {}: {}", candidate, reason != nullptr ? reason : "?");
    // The next candidate has its own.
    std::ranges::for_each(parts, dlclose);
  }
  throw refusal("{} cannot be loaded", search.what)
      .hint("Install it, or name its folder, a CUDA toolkit or a Python site-packages folder in TESSERA_LIBRARY_PATH")
      .hint("These were tried:{}", tried);
}

void DynamicLibrary::Close::operator()(void* handle) const { dlclose(handle); }

void* DynamicLibrary::find(const char* name) const {
  TESSERA_ASSERT(handle_, "{} is looked up in a library that is not open", name);
  return dlsym(handle_.get(), name);
}

void* DynamicLibrary::symbol(const char* name) const {
  void* const address = find(name);
  if (address == nullptr) throw refusal("{} has no function {}", path_, name).hint("It needs a newer version");
  return address;
}

}  // namespace tessera
