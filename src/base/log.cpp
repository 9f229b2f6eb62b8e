#include "tessera/base/log.hpp"

#include <cstdio>

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

}  // namespace tessera
