#pragma once
// Settings of the emulated cuDNN for tests.

#include <cstddef>

namespace emulator {

/// Its number (92500 at start).
void set_cudnn_version(std::size_t version);

/// The behaviour of the ordered backward, for tests: it has the same bits each time (at the start), has other bits from
/// its seventh call on (see take_ordered_backwards), or computes a wrong gradient.
enum class OrderedBackward { holds, drifts, errs };
void set_ordered_backward(OrderedBackward how);

/// How many ordered backwards were executed since the last call.
int take_ordered_backwards();

}  // namespace emulator
