#pragma once
// The communicators of one rank, by queue and group, with the memory that peers reach and the counts of sent data.

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "tessera/comm/device_comm_backend.hpp"
#include "tessera/comm/make_communicator.hpp"
#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// A queue and the group that its collectives run over.
using QueueGroup = std::pair<Queue, Group>;
/// Returns the pairs that have collectives, ordered so that they are opened in the same order on all ranks.
std::set<QueueGroup> wanted_communicators(const StepSchedule& schedule);

class Communicators {
 public:
  /// Between CPUs, `shared` is the rank's shared region. Between GPUs it is the host's staging (null if there is none),
  /// `on_device` is the shared region, and `transport` is how they talk (null: one rank alone).
  explicit Communicators(std::unique_ptr<SharedRegion> shared, std::unique_ptr<DeviceCommBackend> transport = nullptr,
                         std::unique_ptr<DeviceMemory> on_device = nullptr);

  void add(QueueGroup key, std::unique_ptr<Communicator> communicator) { all_[key] = std::move(communicator); }
  /// Returns the communicator of a queue over a group of more than one rank.
  Communicator& of(Queue queue, Group group) const;
  /// Returns how GPUs talk to each other; null on CPUs, and for a rank alone.
  DeviceCommBackend* transport() const { return transport_.get(); }

  std::span<std::byte> device_shared() const;
  std::span<std::byte> host_shared() const;

  /// Returns what this rank has sent so far. Its seconds are NaN over NCCL, whose calls return before their work ends.
  CommunicationCounts counts() const;
  /// Adds what a captured graph sends when it is replayed: communicators count only calls that go through them.
  void count_replay(const CommunicationCounts& sent);

 private:
  std::unique_ptr<SharedRegion> shared_;
  std::unique_ptr<DeviceCommBackend> transport_;
  std::unique_ptr<DeviceMemory> on_device_;
  std::map<QueueGroup, std::unique_ptr<Communicator>> all_;
  CommunicationCounts replayed_{};
};

}  // namespace tessera
