#pragma once
// How much memory a run may take on this machine.

#include <cstdint>

namespace tessera {

/// Bytes that processes of this machine may still allocate without swapping: what the kernel calls available, and no more than
/// what the control groups of this process leave. 0 where the system does not say.
std::int64_t usable_memory();

}  // namespace tessera
