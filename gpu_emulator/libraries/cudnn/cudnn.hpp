#pragma once
// Settings of the emulated cuDNN for tests.

#include <cstddef>

namespace emulator {

/// Its number (92500 at start).
void set_cudnn_version(std::size_t version);

/// Lets deterministic backwards have another bit after so many calls since take_deterministic_backwards(); -1: never.
void let_deterministic_backward_drift(int after);

/// How many deterministic backwards were executed since the last call.
int take_deterministic_backwards();

}  // namespace emulator
