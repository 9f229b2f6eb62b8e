#pragma once
// The communicators available on this device, for side-by-side benchmarks.

#include <memory>
#include <string>
#include <vector>

#include "bench/collective_times.hpp"
#include "tessera/config/options.hpp"
#include "tessera/resolve/machine.hpp"

namespace tessera {

/// Communicators over a group, with their memory.
class Transports {
 public:
  virtual ~Transports() = default;
  virtual std::vector<Contender> contenders() = 0;
  /// Names the device that they use, for the table's head.
  virtual std::string description() const = 0;
};

/// Makes the communicators of run.device, which is cpu or cuda here, for buffers of up to `bytes`. CPU: shared memory
/// if the group is within one node, and messages. GPU: NCCL, unless comm.backend = staged, and staged. Collective.
/// Throws the errors of Backend::open_device and make_device_comm_backend.
std::unique_ptr<Transports> make_transports(RankContext& context, const Options& options, const MachineShape& machine,
                                            std::int64_t bytes, Group group = Group::world);

}  // namespace tessera
