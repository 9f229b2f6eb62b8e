#pragma once
// Memory that kernels keep for themselves as long as a run lives, as sizes: the memory plan has it without a GPU.

#include <cstdint>

#include "tessera/backend/device_kind.hpp"

namespace tessera {

/// On a GPU, of cuBLASLt: what its documentation recommends for Hopper.
inline constexpr std::int64_t kProductWorkspaceBytes = std::int64_t{32} << 20;
/// On a GPU, of kernels of ours: partial sums, and products that they finish.
inline constexpr std::int64_t kSumWorkspaceBytes = std::int64_t{32} << 20;

/// Bytes of device memory that a device's kernels keep beside the scratch of their calls, independent of every shape;
/// first cuBLASLt's, then ours. None on a CPU: a thread's own scratch there is no device's memory.
constexpr std::int64_t kernel_workspace_bytes(DeviceKind device) {
  return device == DeviceKind::cuda ? kProductWorkspaceBytes + kSumWorkspaceBytes : 0;
}

}  // namespace tessera
