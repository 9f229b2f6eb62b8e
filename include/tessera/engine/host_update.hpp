#pragma once
// How fast a rank's host updates offloaded state.

#include "tessera/kernels/kernels.hpp"

namespace tessera {

/// Returns the elements per second that AdamW updates with the kernels of the host's queue, with the cast to `compute`
/// that is loaded, and moments of a type. Like a step, it goes bucket by bucket through the state of `elements`, in
/// memory of its own: at most `bytes`, and as much as can be filled in a second. Takes at most two seconds or so. Not
/// while a segment is played.
double host_update_rate(Kernels& kernels, std::int64_t elements, DType compute_type, DType moments, std::int64_t bytes);

}  // namespace tessera
