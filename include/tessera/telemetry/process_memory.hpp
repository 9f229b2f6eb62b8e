#pragma once
// The memory that the process really holds, as the kernel counts it: to compare with the memory plan.

#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera {

/// Returns the proportional set size of this process in bytes: private pages in full, shared pages divided by the
/// processes that map them (/proc/self/smaps_rollup). -1 if the kernel does not tell.
std::int64_t proportional_set_size();

/// Returns how many bytes of `memory` lie in pages that are in memory for this mapping (mincore). Of private memory,
/// the pages that were touched; of shared memory, those that any process touched. Huge pages count in full. -1 if the
/// kernel does not tell (memory outside of the process, say a device's).
std::int64_t measured_bytes(std::span<const std::byte> memory);

}  // namespace tessera
