#pragma once
// The passes over the training state: the update at a step's end, and the snapshot between two steps.

#include "schedule/passes/gradients.hpp"
#include "schedule/passes/parameters.hpp"

namespace tessera {

/// Appends the work done once per step: the sum of loss and norm over the world, clip, and the updates.
SegmentId write_update(Writer& writer, Parameters& parameters, Gradients& gradients, Scalars& scalars);

/// Appends the copy of the training state to the host, for a checkpoint that is written while steps go on. Each rank
/// stores its share; the copies are waited for at the segment's border.
SegmentId write_snapshot(Writer& writer, Parameters& parameters);

}  // namespace tessera
