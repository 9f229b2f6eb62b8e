#pragma once
// Communicators between ranks that compute on GPUs: NCCL's, and staged ones (device -> pinned host memory -> the host's
// communicators -> device). The implementation is chosen when a binary is linked (cmake/Cuda.cmake). A build without
// CUDA has the same functions; they report that CUDA is missing.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tessera/backend/device.hpp"
#include "tessera/comm/make_communicator.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

struct DeviceCommSettings : CommSettings {
  std::int64_t largest_full = 0;    ///< bytes of the largest gathered buffer or contribution, over all collectives
  std::int64_t largest_result = 0;  ///< bytes of the largest shard that a reduce_scatter writes, over all collectives
  /// The staged communicators' buffer of staged_bytes() (comm/scratch.hpp), not pinned yet; null: allocated here.
  /// Must outlive this object.
  const SharedRegion* staging = nullptr;
  std::span<std::byte> messages = {};  ///< for sums between nodes, of all communicators; empty: they have their own
  bool external_workspace =
      false;  ///< reduce_scatters receive into an external workspace (Communicator::set_workspace), not into own memory
};

/// How one rank's GPU talks to the others': made once, then a communicator is opened for each queue and group.
///
/// Calls of all communicators come from one host thread in list order, on streams of the device. They return at once;
/// the work is in order on the stream. check() throws later failures. Buffers are device memory (broadcast's too);
/// `whole` and `contribution` lie in memory from allocate_shared(). Destroy in this order: communicators, the shared
/// region, this object; no check() or warm_up() after the first.
class DeviceCommBackend {
 public:
  virtual ~DeviceCommBackend() = default;
  /// Returns nccl or staged: the resolved value of `auto`.
  virtual CommBackend backend() const = 0;
  /// Returns, for the log, "NCCL 2.28.9 (/usr/.../libnccl.so.2), sums in a fixed tree, NCCL_LAUNCH_ORDER_IMPLICIT=1 set
  /// here".
  virtual std::string description() const = 0;
  /// Allocates the rank's shared region (full buffers, contributions) as this backend needs it: `bytes` are equal on
  /// all ranks. Once, before open().
  virtual std::unique_ptr<DeviceMemory> allocate_shared(std::int64_t bytes) = 0;
  /// Opens a communicator. Collective over the group. `largest_contribution`: bytes of its largest reduce_scatter
  /// contribution, 0 if it has none. InternalError for a group of one rank.
  virtual std::unique_ptr<Communicator> open(const ProcessGrid& grid, Group group, const std::string& name,
                                             std::int64_t largest_contribution) = 0;
  /// Runs every kind of collective of all open communicators once, on `stream`, and waits: connections are made before
  /// a capture. Collective over the world.
  virtual void warm_up(Stream& stream) = 0;
  /// Applies the time-out to all work given to `stream` so far: for a graph with captured collectives, which are not
  /// watched one by one. Not while the stream is captured. `what`: for the message, "micro-step's graph".
  virtual void watch_until_done(Stream& stream, const std::string& what) = 0;
  /// Throws failures of collectives since the last check. Call after a stream was synchronized.
  virtual void check() = 0;
  /// Return the memory that this takes outside the plan: pinned host memory, and its own device memory (without NCCL's
  /// buffers).
  virtual std::int64_t pinned_bytes() const = 0;
  virtual std::int64_t device_bytes() const = 0;
};

/// UsageError when NCCL cannot serve these ranks: it cannot be loaded or is too old, ranks share a GPU, or a slow
/// network is to be emulated. Collective over the world.
void require_nccl(RankContext& context, const Device& device, const CommOptions& options);

/// Collective over the world. comm.backend = auto means NCCL, which is required as above. Staged communicators are
/// never chosen silently, because their speed differs. `context` and `device` must outlive the result.
std::unique_ptr<DeviceCommBackend> make_device_comm_backend(RankContext& context, Device& device,
                                                            const DeviceCommSettings& settings);

/// Returns "2.28.9", the version of the NCCL that would be loaded here, or why there is none. Loads it.
std::string nccl_version();

}  // namespace tessera
