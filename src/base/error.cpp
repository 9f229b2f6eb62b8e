#include "tessera/base/error.hpp"

#include <cstring>
#include <new>

namespace tessera {

Caught caught_error() try { throw; } catch (const Error& error) {
  return {error.code(), error.what()};
} catch (const std::bad_alloc&) {
  return {
      ExitCode::input_output,
      "the system gives no more memory. The machine, its job, or the address space of a process (ulimit -v) has too "
      "little of it."};
} catch (const std::exception& error) {
  return {ExitCode::internal, error.what()};
} catch (...) {
  return {ExitCode::internal, "an exception of unknown type"};
}

void detail::assertion_failed(const char* condition, const char* file, int line, const std::string& message) {
  const char* slash = std::strrchr(file, '/');
  throw InternalError("internal error: {} ({} at {}:{})", message, condition, slash ? slash + 1 : file, line);
}

}  // namespace tessera
