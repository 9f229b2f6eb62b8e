#pragma once
// Communicators between ranks that compute on GPUs: NCCL's, and staged ones (device -> pinned host memory -> the host's
// communicators -> device). Which code stands behind these functions is decided when a binary is linked
// (cmake/Cuda.cmake); a build without CUDA has them too, and they say so.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tessera/backend/device.hpp"
#include "tessera/comm/make_communicator.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

struct DeviceCommunicationSettings {
  CommOptions comm;                 ///< backend, emulate, and NCCL's options
  bool deterministic = true;        ///< sums in the CPU's tree; otherwise in NCCL's own order (staged: always the tree)
  double timeout_seconds = 0;       ///< for peers to arrive, at start and in collectives; 0 = for ever
  bool force_pairwise = false;      ///< staged: messages even inside a node (tests)
  std::int64_t largest_whole = 0;   ///< bytes of the largest gathered buffer or contribution, over all collectives
  std::int64_t largest_result = 0;  ///< bytes of the largest shard that a reduce_scatter writes, over all collectives
  /// The staged way's buffer of staged_bytes() (comm/scratch.hpp), not pinned yet; null: it makes its own. Outlives
  /// this.
  const SharedRegion* staging = nullptr;
  std::span<std::byte> messages;  ///< for its sums between nodes, of all communicators; empty: they have their own
  bool lent = false;  ///< reduce_scatters receive into what they are lent (Communicator::lend), not into own memory
};

/// How one rank's GPU talks to the others': made once, then a communicator is opened for each lane and group.
///
/// Calls of all communicators come from one host thread in list order, on streams of the device; they return at once,
/// and the work is in order on the stream. What fails later is thrown by check(). Buffers are device memory
/// (broadcast's too); `whole` and `contribution` lie in what allocate_shared() gave.
/// Things go in this order: communicators, the shared region, this object; no check() or warm_up() after the first.
class DeviceCommunication {
 public:
  virtual ~DeviceCommunication() = default;
  /// nccl or staged: what `auto` has become.
  virtual CommBackend backend() const = 0;
  /// For the log: "NCCL 2.28.9 (/usr/.../libnccl.so.2), sums in a fixed tree, NCCL_LAUNCH_ORDER_IMPLICIT=1 set here".
  virtual std::string description() const = 0;
  /// The rank's shared region (whole buffers, contributions), as this way of talking wants it: `bytes` are equal on all
  /// ranks. Once, before open().
  virtual std::unique_ptr<DeviceMemory> allocate_shared(std::int64_t bytes) = 0;
  /// Collective over the group. `largest_contribution`: bytes of the largest reduce_scatter contribution on this
  /// communicator, 0 if it has none. InternalError for a group of one rank.
  virtual std::unique_ptr<Communicator> open(const ProcessGrid& grid, Group group, const std::string& name,
                                             std::int64_t largest_contribution) = 0;
  /// Runs every kind of collective of all open communicators once, on `stream`, and waits: connections are made before
  /// a capture. Collective over the world.
  virtual void warm_up(Stream& stream) = 0;
  /// Has the time-out hold for what `stream` was given so far: for a graph with captured collectives, which nobody
  /// follows one by one. Not while the stream is captured. `what`: for the message, "micro-step's graph".
  virtual void follow(Stream& stream, const std::string& what) = 0;
  /// Throws what went wrong in collectives since the last check. After a stream was synchronized.
  virtual void check() = 0;
  /// Memory outside the plan that this takes: pinned host memory, and device memory of its own (not NCCL's buffers).
  virtual std::int64_t pinned_bytes() const = 0;
  virtual std::int64_t device_bytes() const = 0;
};

/// Collective over the world. comm.backend = auto means NCCL. UsageError when NCCL cannot be loaded, is too old for an
/// option, or when ranks share a GPU: a staged one is never chosen silently, because its speed is another. `context`
/// and `device` must outlive the result.
std::unique_ptr<DeviceCommunication> make_device_communication(RankContext& context, Device& device,
                                                               const DeviceCommunicationSettings& settings);

/// "2.28.9", the version of the NCCL that would be loaded here, or why none is. Loads it.
std::string nccl_version();

}  // namespace tessera
