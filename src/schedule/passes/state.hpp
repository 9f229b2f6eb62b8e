#pragma once
// The passes over the training state: the update at a step's end, and the snapshot between two steps.

#include "schedule/passes/gradients.hpp"
#include "schedule/passes/parameters.hpp"

namespace tessera {

/// Appends the work done once per step: the sum of loss and norm over the world, clip, and the updates of state on the
/// device.
SegmentId write_update(Writer& writer, Parameters& parameters, Gradients& gradients, Scalars& scalars);

/// Appends the updates of state on the host, in the order in which forward reads the units.
SegmentId write_host_updates(Writer& writer, Parameters& parameters, Gradients& gradients, Scalars& scalars);
/// Appends a segment that does the work of two, `updates` and then `micro_step`. Each update comes as late as the
/// micro-step allows: before the first operation that touches what it makes.
SegmentId write_with_updates(Writer& writer, SegmentId updates, SegmentId micro_step);

/// Appends the copy of the training state to the host, for a checkpoint that is written while steps go on. Each rank
/// stores its share; the copies are waited for at the segment's border.
SegmentId write_snapshot(Writer& writer, Parameters& parameters);

}  // namespace tessera
