#include "tessera/telemetry/process_memory.hpp"

#include <fstream>
#include <sstream>
#include <string>

namespace tessera {

std::int64_t proportional_set_size() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("Pss:")) continue;
    std::istringstream words(line.substr(4));
    std::int64_t kilobytes = -1;
    words >> kilobytes;
    return kilobytes < 0 ? -1 : kilobytes * 1024;
  }
  return -1;
}

}  // namespace tessera
