#pragma once
// What differs between a GPU and the emulated one when the kernels' cases run.

#include <cstdint>

namespace tessera::testing {

/// The library's share of the kernels' workspace, in bytes.
std::int64_t library_workspace_bytes();

/// Before a case opens the device. `threads`: what the case varies where results must not depend on the order.
void prepare_test_device(int threads);

}  // namespace tessera::testing
