#pragma once
// Makes the communicator that suits a group: shared memory inside a node, messages between nodes.

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/backend/thread_pool.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/comm/rank_context.hpp"
#include "tessera/comm/shared_memory.hpp"
#include "tessera/config/options.hpp"
#include "tessera/grid/grid.hpp"

namespace tessera {

/// What all communicators of a rank have in common.
struct CommSettings {
  CommOptions comm;              ///< how GPUs talk; how slow collectives are on purpose
  bool deterministic = true;     ///< sums in one fixed order; otherwise NCCL adds in its own
  double timeout_seconds = 300;  ///< how long a collective waits for its peers before CommunicationError; 0 = no limit
  bool force_pairwise = false;   ///< messages even inside a node (tests, measurements)
};

struct CommunicatorOptions : CommSettings {
  /// All threads that compete for this rank's cores, including those of other ranks (0 = one for each rank of the
  /// node). Waits spin briefly, but only if each thread has its own core.
  int threads_on_cores = 0;
  /// Threads that share a collective's copies and sums, where the queue's work may use them (serial queues). Not owned.
  /// Results do not depend on it.
  ThreadPool* pool = nullptr;
  /// Communicators over messages add in an external workspace (Communicator::set_workspace) instead of their own
  /// memory.
  bool external_workspace = false;
};

/// Makes a communicator. Collective over the group. `name` is for messages ("gather", "reduce", ...). `region` and
/// `context` must outlive it. With comm.emulate every collective lasts at least emulate.seconds(bytes), bytes as in
/// CommunicationCount: the calling queue sleeps for the rest of the time, without using its core. Different threads may
/// use communicators of one rank at the same time.
std::unique_ptr<Communicator> make_communicator(RankContext& context, const ProcessGrid& grid, Group group,
                                                const SharedRegion& region, const std::string& name,
                                                const CommunicatorOptions& options = {});

/// Returns the bytes of its own memory in which a communicator over messages stages. 0 inside a node, and with an
/// external workspace.
std::int64_t staging_bytes(const ProcessGrid& grid, Group group, const CommunicatorOptions& options = {});

}  // namespace tessera
