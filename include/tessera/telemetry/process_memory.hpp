#pragma once
// The memory that the process really holds, as the kernel counts it: to compare with the memory plan.

#include <cstdint>

namespace tessera {

/// Returns the proportional set size of this process in bytes: private pages in full, shared pages divided by the
/// processes that map them (/proc/self/smaps_rollup). -1 if the kernel does not tell.
std::int64_t proportional_set_size();

}  // namespace tessera
