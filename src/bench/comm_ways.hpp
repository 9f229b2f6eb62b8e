#pragma once
// The ways of talking that a rank's device has, to be measured beside each other.

#include <memory>
#include <string>
#include <vector>

#include "bench/collective_times.hpp"
#include "tessera/config/options.hpp"
#include "tessera/training/session.hpp"

namespace tessera {

/// Communicators over the world, with the memory that they work on.
class CommWays {
 public:
  virtual ~CommWays() = default;
  virtual std::vector<Contender> contenders() = 0;
  /// What they run on, for the table's head.
  virtual std::string description() const = 0;
};

/// For run.device, which is cpu or cuda here, and buffers of up to `bytes`. CPU: shared memory where the world is a
/// node, and messages. GPU: NCCL, unless comm.backend = staged, and staged. Collective. Errors: Backend::open_device's
/// and make_device_communication's.
std::unique_ptr<CommWays> make_comm_ways(RankContext& context, const Options& options, const MachineShape& machine,
                                         std::int64_t bytes);

/// A communicator that works on the host's memory, with buffers of its own, as contender beside them: MPI's.
std::unique_ptr<CommWays> make_host_way(const std::string& name, Communicator& communicator, std::int64_t bytes);

}  // namespace tessera
