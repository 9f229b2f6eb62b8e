#include "tessera/app/usable_memory.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace tessera {

namespace {

/// MemAvailable of /proc/meminfo; 0 where it is missing.
std::int64_t available_to_the_machine() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemAvailable:")) return std::stoll(line.substr(line.find(':') + 1)) * 1024;
  }
  return 0;
}

/// The number in a file; -1 where there is none ("max", or no such file).
std::int64_t number_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::int64_t number = -1;
  return file >> number ? number : -1;
}

/// The path of this process below a hierarchy of control groups: the line "ID:CONTROLLERS:PATH" with these controllers.
std::string group_path(const std::string& controllers) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second != std::string::npos && line.substr(first + 1, second - first - 1) == controllers) return line.substr(second + 2);
  }
  return "";
}

/// Bytes of file cache in a group, which the kernel gives back before anybody runs out of memory.
std::int64_t file_cache(const std::filesystem::path& statistics, const std::string& prefix) {
  std::ifstream file(statistics);
  std::int64_t bytes = 0, number = 0;
  for (std::string name; file >> name >> number;) {
    if (name == prefix + "inactive_file" || name == prefix + "active_file") bytes += number;
  }
  return bytes;
}

/// How a version of control groups spells it.
struct GroupFiles {
  const char *root, *controllers, *limit, *usage, *cache_prefix;
};

/// The least that this process's group or one of its parents leaves, or `least`.
std::int64_t left_by_groups(const GroupFiles& files, std::int64_t least) {
  const std::filesystem::path root = files.root;
  std::filesystem::path path = root / group_path(files.controllers);
  while (true) {
    const std::int64_t limit = number_in(path / files.limit), used = number_in(path / files.usage);
    if (limit >= 0 && used >= 0) {
      const std::int64_t kept = used - std::min(used, file_cache(path / "memory.stat", files.cache_prefix));
      least = std::min(least, std::max<std::int64_t>(0, limit - kept));
    }
    if (path == root || !path.has_relative_path()) return least;
    path = path.parent_path();
  }
}

}  // namespace

std::int64_t usable_memory() {
  const std::int64_t bytes = available_to_the_machine();
  const GroupFiles second{"/sys/fs/cgroup", "", "memory.max", "memory.current", ""};
  const GroupFiles first{"/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"};
  return left_by_groups(first, left_by_groups(second, bytes));
}

}  // namespace tessera
