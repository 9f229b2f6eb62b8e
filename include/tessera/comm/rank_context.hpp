#pragma once
// A rank's knowledge of the world and its means to reach the others: the basis of communicators. Implemented by World
// (a process among processes, over MPI) and by ranks as threads of one process (local_world.hpp).

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/control_plane.hpp"
#include "tessera/comm/notice.hpp"
#include "tessera/comm/shared_memory.hpp"
#include "tessera/comm/transport.hpp"

namespace tessera {

class RankContext {
 public:
  virtual ~RankContext() = default;
  virtual std::int64_t rank() const = 0;
  virtual std::int64_t size() const = 0;
  /// Returns the ranks of a node. Nodes are contiguous ranks of equal number.
  virtual std::int64_t ranks_per_node() const = 0;
  virtual const std::string& host() const = 0;
  /// Names the machine: equal for all its ranks, even if they count as several nodes. They share its GPUs.
  virtual const std::string& machine() const { return host(); }

  std::int64_t node() const { return rank() / ranks_per_node(); }
  std::int64_t node_rank() const { return rank() % ranks_per_node(); }
  std::vector<std::int64_t> node_members() const;

  /// Returns the plane over all ranks; for one thread at a time.
  virtual ControlPlane& control() = 0;
  virtual FailureNotice& notice() = 0;
  /// Returns the exchange by which ranks of this node open each other's memory.
  virtual MemoryExchange& memory() = 0;
  /// Opens a transport for the group `members` (world ranks in the group's order). Collective over the members. It may
  /// not outlive the context.
  virtual std::unique_ptr<Transport> open_transport(const std::vector<std::int64_t>& members) = 0;
};

}  // namespace tessera
