#include "tessera/files/path_exists.hpp"

#include <system_error>

#include "tessera/base/error.hpp"

namespace tessera {

bool path_exists(const std::filesystem::path& path) {
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  if (error) throw UsageError("{} cannot be used ({}): name another path", path.string(), error.message());
  return exists;
}

}  // namespace tessera
