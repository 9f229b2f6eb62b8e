#include "tessera/telemetry/process_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/base/error.hpp"
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

namespace {

/// Returns the member to which the mapping of this name is added. The name is empty for memory of no file, and "[heap]"
/// or the like for the kernel's own.
std::int64_t MappingBytes::*part_of(const std::string& name) {
  if (name == "[heap]") return &MappingBytes::heap;
  if (!name.starts_with('/')) return &MappingBytes::other;
  for (const char* const place : {"/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"}) {
    if (name.starts_with(place)) return &MappingBytes::shared;
  }
  return &MappingBytes::files;
}

/// Returns whether a line of smaps begins a mapping: "55d0-55d1 r-xp 00000000 08:01 123  /usr/bin/name". The others
/// begin with a word and a colon.
bool is_head(const std::string& line) {
  const auto dash = line.find('-');
  return dash != std::string::npos && dash > 0 && line.find_first_not_of("0123456789abcdef") == dash;
}

}  // namespace

MappingBytes mapping_bytes(std::istream& mappings) {
  MappingBytes memory;
  std::int64_t MappingBytes::*part = nullptr;
  for (std::string line; std::getline(mappings, line);) {
    std::istringstream words(line);
    std::string word;
    if (is_head(line)) {
      for (int i = 0; i < 5; ++i) words >> word;
      std::getline(words >> std::ws, word);
      part = part_of(words ? word : "");
    } else if (line.starts_with("Pss:")) {
      std::int64_t kilobytes = -1;
      words >> word >> kilobytes;
      if (part == nullptr || kilobytes < 0)
        throw IoError("the line '{}' in the mappings of a process is not understood", line);
      memory.*part += kilobytes * 1024;
      memory.total += kilobytes * 1024;
    }
  }
  return memory;
}

MappingBytes mapping_bytes() {
  std::ifstream file("/proc/self/smaps");
  const MappingBytes memory = mapping_bytes(file);
  if (memory.total == 0) throw IoError("/proc/self/smaps cannot be read, because the kernel does not tell of mappings");
  return memory;
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
