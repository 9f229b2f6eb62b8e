#pragma once
// The MPI library's own collectives, for comparison.

#include <memory>

#include "tessera/comm/communicator.hpp"
#include "tessera/comm/world.hpp"

namespace tessera {

/// Makes a communicator of all ranks of `world`, in its order. For measurements only. Sums come in MPI's order, so
/// their last bits depend on its version and on the message's size. A wait does not end when a peer fails (World::run
/// takes such a rank down). Buffers may lie anywhere. Types: fp32 (reduce_scatter into fp32 only) and int64.
/// CommunicationError for others, and for more elements than MPI can count (2^31 - 1). Collective. It may not outlive
/// `world`.
std::unique_ptr<Communicator> make_mpi_communicator(World& world);

}  // namespace tessera
