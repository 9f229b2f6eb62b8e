#pragma once
// A GPU's kernels for callers with host memory. Every call copies its memory to the device, runs, waits, and copies
// back what may have changed. So the same tests check CPUs and GPUs.

#include <memory>

#include "tessera/backend/device.hpp"
#include "tessera/kernels/kernels.hpp"

namespace tessera::testing {

/// `device` and `kernels` (of that device) must outlive the result; the stream given to its methods is that device's.
/// Memory that a call only reads must come back unchanged, or it throws std::runtime_error.
std::unique_ptr<Kernels> make_mirrored_kernels(tessera::Device& device, Kernels& kernels);

}  // namespace tessera::testing
