#include "comm/mpi/node_layout.hpp"

#include <numeric>
#include <vector>

namespace tessera {

NodeLayout find_nodes(MPI_Comm comm) {
  int rank = 0, size = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  MPI_Comm machine_comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine_comm), "MPI_Comm_split_type");
  const MpiComm machine(machine_comm);

  // A machine is known by the lowest rank on it.
  int leader = rank;
  check_mpi(MPI_Bcast(&leader, 1, MPI_INT, 0, machine.get()), "MPI_Bcast");
  std::vector<int> leaders(static_cast<std::size_t>(size));
  check_mpi(MPI_Allgather(&leader, 1, MPI_INT, leaders.data(), 1, MPI_INT, comm), "MPI_Allgather");

  NodeLayout layout;
  std::vector<std::int64_t> ranks_of(static_cast<std::size_t>(size), 0);
  int place = 0;  // ranks before this one when sorted by (leader, rank)
  for (int other = 0; other < size; ++other) {
    const int theirs = leaders[static_cast<std::size_t>(other)];
    ++ranks_of[static_cast<std::size_t>(theirs)];
    if (theirs < leader || (theirs == leader && other < rank)) ++place;
    if (theirs < leader) ++layout.machine_first;
  }
  layout.ranks_per_node = std::accumulate(ranks_of.begin(), ranks_of.end(), std::int64_t{0},
                                          [](std::int64_t a, std::int64_t b) { return std::gcd(a, b); });
  layout.machine_ranks = ranks_of[static_cast<std::size_t>(leader)];

  MPI_Comm world = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm, 0, place, &world), "MPI_Comm_split");
  layout.world = MpiComm(world);
  return layout;
}

}  // namespace tessera
