#include "tessera/backend/cores.hpp"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "tessera/base/error.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kReservedShare = 32;
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// Reads the number in a one-line control file; empty when the file is missing or says "max".
std::optional<std::int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// Converts "MemAvailable:  123 kB" to bytes.
std::int64_t memory_available(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::int64_t kilobytes = 0;
    if (words >> key >> kilobytes && key == "MemAvailable:") return kilobytes * 1024;
  }
  throw IoError("cannot find MemAvailable in {}, so the free memory is unknown. Mount the proc file system.", path);
}

/// The files of a group in one version of control groups. The keys of memory.stat count cached files of the group and
/// those below it.
struct GroupFiles {
  const char *limit, *used, *active, *inactive;
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_active_file",
                               "total_inactive_file"};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "active_file", "inactive_file"};

/// Returns the bytes of cached files that the system reclaims when memory is short, although they count as used.
std::int64_t cached_files(const std::string& path, const GroupFiles& names) {
  std::ifstream file(path);
  std::int64_t sum = 0, bytes = 0;
  for (std::string key; file >> key >> bytes;) {
    if (key == names.active || key == names.inactive) sum += bytes;
  }
  return sum;
}

/// Returns the memory that a group leaves.
std::int64_t group_leaves(const std::string& folder, const GroupFiles& names) {
  const auto most = read_number(folder + names.limit), used = read_number(folder + names.used);
  if (!most || !used) return kUnlimited;
  const std::int64_t held = std::max<std::int64_t>(*used - cached_files(folder + "memory.stat", names), 0);
  return std::max<std::int64_t>(*most - held, 0);
}

/// Returns the cores whose time a group may use; infinity without a limit.
double group_quota(const std::string& folder, bool is_version_2) {
  std::int64_t quota = 0, period = 0;
  if (is_version_2) {
    std::ifstream(folder + "cpu.max") >> quota >> period;  // or "max 100000", which leaves both 0
  } else {
    quota = read_number(folder + "cpu.cfs_quota_us").value_or(-1);
    period = read_number(folder + "cpu.cfs_period_us").value_or(0);
  }
  if (quota <= 0 || period <= 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(quota) / static_cast<double>(period);
}

/// Calls look(folder, is_version_2) for this process's control group that has a controller, and for all its ancestors.
template <class F>
void for_control_groups(const std::string& proc, const std::string& cgroup, const std::string& controller, F&& look) {
  // Lines are "id:controllers:/group"; version 2 has id 0 and no controllers.
  std::ifstream file(proc + "/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const bool is_version_2 = controllers == ",,";
    if (!is_version_2 && controllers.find("," + controller + ",") == std::string::npos) continue;
    const std::string root = is_version_2 ? cgroup : cgroup + "/" + controller;
    std::string group = line.substr(second + 1);
    if (group.empty() || group.front() != '/' || group == "/") group.clear();
    for (;; group.erase(group.find_last_of('/'))) {
      look(root + group + "/", is_version_2);
      if (group.empty()) break;
    }
  }
}

}  // namespace

std::vector<int> allowed_core_numbers() {
  std::vector<int> cores;
  // A machine may have more processors than cpu_set_t has bits: grow the mask until the kernel's fits.
  for (int processors = CPU_SETSIZE; processors <= (1 << 20); processors *= 2) {
    const auto free_set = [](cpu_set_t* set) { CPU_FREE(set); };
    const std::unique_ptr<cpu_set_t, decltype(free_set)> set(CPU_ALLOC(static_cast<std::size_t>(processors)), free_set);
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(processors));
    if (sched_getaffinity(0, bytes, set.get()) != 0) continue;
    for (int core = 0; core < processors; ++core) {
      if (CPU_ISSET_S(static_cast<std::size_t>(core), bytes, set.get())) cores.push_back(core);
    }
    return cores;
  }
  for (int core = 0; core < static_cast<int>(std::thread::hardware_concurrency()); ++core) cores.push_back(core);
  return cores;
}

int allowed_cores() {
  const auto cores = static_cast<double>(allowed_core_numbers().size());
  return static_cast<int>(std::max(1.0, std::min(cores, cpu_quota().value_or(cores))));
}

std::optional<double> cpu_quota(const std::string& proc, const std::string& cgroup) {
  double least = std::numeric_limits<double>::infinity();
  for_control_groups(proc, cgroup, "cpu", [&](const std::string& folder, bool is_version_2) {
    least = std::min(least, group_quota(folder, is_version_2));
  });
  return std::isfinite(least) ? std::optional(least) : std::nullopt;
}

std::optional<std::int64_t> lockable_memory() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return static_cast<std::int64_t>(limit.rlim_cur);
}

std::int64_t usable_memory(const std::string& proc, const std::string& cgroup) {
  std::int64_t least = memory_available(proc + "/meminfo");
  for_control_groups(proc, cgroup, "memory", [&](const std::string& folder, bool is_version_2) {
    least = std::min(least, group_leaves(folder, is_version_2 ? kVersion2 : kVersion1));
  });
  // The rest is for the system and for allocations of libraries, which no plan knows.
  return least - least / kReservedShare;
}

}  // namespace tessera
