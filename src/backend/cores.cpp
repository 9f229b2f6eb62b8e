#include "tessera/backend/cores.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "tessera/base/error.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// The number in a one-line control file; empty when the file is missing or says "max".
std::optional<std::int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// "MemAvailable:  123 kB" in bytes.
std::int64_t memory_available(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::int64_t kilobytes = 0;
    if (words >> key >> kilobytes && key == "MemAvailable:") return kilobytes * 1024;
  }
  throw IoError("cannot find MemAvailable in {} (the free memory is unknown): a mounted proc file system is needed",
                path);
}

/// What the group at `folder` and those above it up to `root` leave, by the two file names of a version.
std::int64_t group_leaves(const std::string& root, std::string group, const std::string& limit,
                          const std::string& used) {
  std::int64_t least = kUnlimited;
  while (true) {
    const auto most = read_number(root + group + "/" + limit);
    const auto now = read_number(root + group + "/" + used);
    if (most && now) least = std::min(least, std::max<std::int64_t>(*most - *now, 0));
    if (group.empty()) return least;
    group.erase(group.find_last_of('/'));
  }
}

}  // namespace

int allowed_cores() {
  // A machine may have more processors than cpu_set_t has bits: grow the mask until the kernel's fits.
  for (int processors = CPU_SETSIZE; processors <= (1 << 20); processors *= 2) {
    const auto free_set = [](cpu_set_t* set) { CPU_FREE(set); };
    const std::unique_ptr<cpu_set_t, decltype(free_set)> set(CPU_ALLOC(static_cast<std::size_t>(processors)), free_set);
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(processors));
    if (sched_getaffinity(0, bytes, set.get()) == 0) return std::max(1, CPU_COUNT_S(bytes, set.get()));
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::int64_t usable_memory(const std::string& proc, const std::string& cgroup) {
  std::int64_t least = memory_available(proc + "/meminfo");
  // Lines are "id:controllers:/group"; version 2 has id 0 and no controllers.
  std::ifstream file(proc + "/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    std::string group = line.substr(second + 1);
    if (group.empty() || group.front() != '/' || group == "/") group.clear();
    if (controllers == ",,") {
      least = std::min(least, group_leaves(cgroup, group, "memory.max", "memory.current"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      least =
          std::min(least, group_leaves(cgroup + "/memory", group, "memory.limit_in_bytes", "memory.usage_in_bytes"));
    }
  }
  return least;
}

}  // namespace tessera
