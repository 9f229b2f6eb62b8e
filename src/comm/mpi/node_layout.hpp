#pragma once
// Finds the processes that share a machine, and numbers the ranks accordingly.

#include <cstdint>

#include "comm/mpi/check.hpp"

namespace tessera {

struct NodeLayout {
  MpiComm world;  ///< all processes, renumbered so that those of a machine are contiguous
  std::int64_t machine_first = 0, machine_ranks = 1;  ///< the ranks of this machine
  std::int64_t ranks_per_node = 1;                    ///< the greatest common divisor of all machines' ranks
};

/// Collective over `comm`.
NodeLayout find_nodes(MPI_Comm comm);

}  // namespace tessera
