#pragma once
// The differences between a GPU and the emulated one when the kernels' cases run.

#include <cstdint>

namespace tessera::testing {

/// The library's share of the kernels' workspace, in bytes.
std::int64_t library_workspace_bytes();

/// Called before a case opens the device. `threads`: varied by cases whose results must not depend on the order.
void prepare_test_device(int threads);

}  // namespace tessera::testing
