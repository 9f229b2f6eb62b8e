#include "tessera/files/installation.hpp"

#include <system_error>

#include "tessera/base/environment.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

std::filesystem::path own_executable() {
  std::error_code error;
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw IoError("cannot read /proc/self/exe ({})", error.message());
  // A bundle's loader starts the program, and a script of the bundle starts the loader.
  if (path.filename().string().starts_with("ld-linux")) path = variable("TESSERA_PROGRAM");
  return path;
}

std::filesystem::path installed(std::initializer_list<const char*> places) {
  std::error_code ignored;
  for (std::filesystem::path at = own_executable().parent_path(); at.has_relative_path(); at = at.parent_path()) {
    for (const char* const place : places) {
      if (std::filesystem::exists(at / place, ignored)) return at / place;
    }
  }
  return {};
}

}  // namespace tessera
