#include "tessera/base/log.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "tessera/base/environment.hpp"
#include "tessera/base/shown.hpp"

namespace tessera {

void Log::info(const std::string& line) const {
  if (rank_ != 0) return;
  std::fputs((printable(line) + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void Log::warn(const std::string& line) const {
  if (rank_ != 0) return;
  std::fputs(("warning: " + printable(line) + "\n").c_str(), stderr);
}

void Log::error(const std::string& line) const {
  const std::string who = world_ > 1 ? fmt::format("rank {}: ", rank_) : "";
  std::fputs(fmt::format("tessera: {}{}\n", who, printable(line)).c_str(), stderr);
}

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
