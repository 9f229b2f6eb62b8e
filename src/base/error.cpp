#include "tessera/base/error.hpp"

#include <cstring>

namespace tessera::detail {

void assertion_failed(const char* condition, const char* file, int line, const std::string& message) {
  const char* slash = std::strrchr(file, '/');
  throw InternalError("internal error: {} ({} at {}:{})", message, condition, slash ? slash + 1 : file, line);
}

}  // namespace tessera::detail
