#pragma once
// The cores and memory that the scheduler or container grants this process.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// Returns the numbers of the cores that this process may run on (its affinity mask), in order.
std::vector<int> allowed_core_numbers();
/// Returns the number of cores that this process may use: those that it may run on, but no more than the whole cores of
/// cpu_quota(), so that its other threads have the rest. At least 1.
int allowed_cores();

/// Returns the time that the control groups of this process allow it (v1 or v2, with all ancestors), in cores: 1.5 are
/// 150 ms in 100 ms. Nothing where it is not limited. `proc` and `cgroup`: as for usable_memory().
std::optional<double> cpu_quota(const std::string& proc = "/proc", const std::string& cgroup = "/sys/fs/cgroup");

/// Returns the bytes that this process may lock in memory (RLIMIT_MEMLOCK); nothing where that is not limited.
std::optional<std::int64_t> lockable_memory();

/// Returns the bytes that this process may still allocate: the smaller of MemAvailable and what its control groups
/// leave (v1 or v2, with all ancestors). Cached files do not count as used. `proc` and `cgroup` are the mount points to
/// read, for tests.
std::int64_t usable_memory(const std::string& proc = "/proc", const std::string& cgroup = "/sys/fs/cgroup");

}  // namespace tessera
