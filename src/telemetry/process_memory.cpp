#include "tessera/telemetry/process_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/base/math.hpp"

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

std::int64_t measured_bytes(std::span<const std::byte> memory) {
  if (memory.empty()) return 0;
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  const auto size = static_cast<std::int64_t>(memory.size());
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  const auto before = static_cast<std::int64_t>(address % static_cast<std::uintptr_t>(page));
  std::vector<unsigned char> pages(static_cast<std::size_t>(ceil_div(before + size, page)));
  void* const first = const_cast<std::byte*>(memory.data()) - before;
  if (mincore(first, static_cast<std::size_t>(before + size), pages.data()) != 0) return -1;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if ((pages[i] & 1u) == 0) continue;
    const std::int64_t begin = static_cast<std::int64_t>(i) * page - before;
    bytes += std::min(size, begin + page) - std::max<std::int64_t>(0, begin);
  }
  return bytes;
}

}  // namespace tessera
