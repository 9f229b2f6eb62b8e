#pragma once
// Sizes of the memory that kernels keep for themselves during a run: the memory plan has them without a GPU.

#include <cstdint>

#include "tessera/backend/device_kind.hpp"

namespace tessera {

/// cuBLASLt's on a GPU: the size that its documentation recommends for Hopper.
inline constexpr std::int64_t kProductWorkspaceBytes = std::int64_t{32} << 20;
/// Own kernels' on a GPU: partial sums, and matmuls that they finish.
inline constexpr std::int64_t kSumWorkspaceBytes = std::int64_t{32} << 20;

/// Returns the device memory that a device's kernels keep in addition to the scratch of their calls, independent of
/// every shape. cuBLASLt's comes first, then the own kernels'. None on a CPU: a thread's own scratch is not device
/// memory.
constexpr std::int64_t kernel_workspace_bytes(DeviceKind device) {
  return device == DeviceKind::cuda ? kProductWorkspaceBytes + kSumWorkspaceBytes : 0;
}

}  // namespace tessera
