#pragma once
// What the process really holds, as the kernel counts it: the other side of the memory plan.

#include <cstdint>

namespace tessera {

/// Proportional set size of this process in bytes: private pages whole, shared pages divided by those who map them
/// (/proc/self/smaps_rollup); -1 where the kernel does not tell.
std::int64_t proportional_set_size();

}  // namespace tessera
