#pragma once
// Settings of the emulated cuDNN for tests.

#include <cstddef>

namespace emulator {

/// Its number (92500 at start).
void set_cudnn_version(std::size_t version);

/// What the ordered backward does: what it promises (at start); other bits from its seventh call on (see
/// take_ordered_backwards); another gradient.
enum class OrderedBackward { holds, drifts, errs };
void set_ordered_backward(OrderedBackward how);

/// How many ordered backwards were executed since the last call.
int take_ordered_backwards();

}  // namespace emulator
