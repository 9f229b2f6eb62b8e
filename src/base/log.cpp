#include "tessera/base/log.hpp"

#include <cstdio>

namespace tessera {

void Log::info(const std::string& line) const {
  if (rank_ != 0) return;
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void Log::warn(const std::string& line) const {
  if (rank_ != 0) return;
  std::fputs(("warning: " + line + "\n").c_str(), stderr);
}

void Log::error(const std::string& line) const {
  std::fputs(
      (world_ > 1 ? fmt::format("tessera: rank {}: {}\n", rank_, line) : fmt::format("tessera: {}\n", line)).c_str(),
      stderr);
}

}  // namespace tessera
