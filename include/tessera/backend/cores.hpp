#pragma once
// What this process may use of the machine: cores and memory, as the scheduler or container grants them.

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// The numbers of the cores that this process may run on (its affinity mask), in order.
std::vector<int> allowed_core_numbers();
/// The number of cores that this process may run on (its affinity mask), at least 1.
int allowed_cores();

/// Bytes that this process may still allocate: the smaller of MemAvailable and what the control group (v1 or v2, this
/// one and those above it) leaves; cached files do not count as used. `proc` and `cgroup` are the mount points to read,
/// for tests.
std::int64_t usable_memory(const std::string& proc = "/proc", const std::string& cgroup = "/sys/fs/cgroup");

}  // namespace tessera
