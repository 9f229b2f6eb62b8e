#pragma once
// What the process really holds, as the kernel counts it: the other side of the memory plan.

#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera {

/// Proportional set size of this process in bytes: private pages whole, shared pages divided by those who map them
/// (/proc/self/smaps_rollup); -1 where the kernel does not tell.
std::int64_t proportional_set_size();

/// How many bytes of `memory` lie in pages that are in memory for this mapping (mincore): of private memory, those that
/// were touched; of shared memory, those that anybody touched. Huge pages count whole. -1 where the kernel does not
/// tell (memory that is not the process's, a device's say).
std::int64_t resident_bytes(std::span<const std::byte> memory);

}  // namespace tessera
