#pragma once
// How fast a rank's host updates offloaded state.

#include "tessera/kernels/kernels.hpp"

namespace tessera {

/// Returns the elements per second that AdamW updates with the kernels of the host's queue: the best of a few short
/// tries, on separate memory. Not while a segment is played.
double host_update_rate(Kernels& kernels);

}  // namespace tessera
