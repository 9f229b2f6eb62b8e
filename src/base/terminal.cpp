#include "tessera/base/terminal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "tessera/base/environment.hpp"

namespace tessera {

/// Open MPI gives each rank its own terminal and passes the text on. Under it, the question is therefore where mpiexec
/// (the parent on the first machine) writes to.
bool is_terminal(std::FILE* stream) {
  if (::isatty(::fileno(stream)) == 0) return false;
  if (variable("OMPI_COMM_WORLD_SIZE").empty()) return true;
  std::error_code error;
  const auto target = std::filesystem::read_symlink(fmt::format("/proc/{}/fd/1", ::getppid()), error).string();
  return !error && (target.starts_with("/dev/pts/") || target.starts_with("/dev/tty"));
}

}  // namespace tessera
