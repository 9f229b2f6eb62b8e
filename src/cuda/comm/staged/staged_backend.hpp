#pragma once
// Communication of GPUs through host memory: comm.backend = staged.

#include <memory>
#include <string>

#include "cuda/comm/staged/staging_channel.hpp"
#include "tessera/comm/device_comm_backend.hpp"

namespace tessera {

class StagedBackend final : public DeviceCommBackend {
 public:
  /// Collective over the world.
  StagedBackend(RankContext& context, Device& device, const DeviceCommSettings& settings);

  CommBackend backend() const override { return CommBackend::staged; }
  std::string description() const override;
  std::unique_ptr<DeviceMemory> allocate_shared(std::int64_t bytes) override;
  std::unique_ptr<Communicator> open(const ProcessGrid& grid, Group group, const std::string& name,
                                     std::int64_t largest_contribution) override;
  void warm_up(Stream&) override {}                               // nothing of it is captured
  void watch_until_done(Stream&, const std::string&) override {}  // the host's collectives end by themselves
  void check() override { channel_.check(); }
  std::int64_t pinned_bytes() const override { return channel_.own_bytes() + message_bytes_; }
  std::int64_t device_bytes() const override { return 0; }

 private:
  RankContext& context_;
  Device& device_;
  DeviceCommSettings settings_;
  StagingChannel channel_;
  std::int64_t message_bytes_ = 0;  ///< of communicators over messages
};

}  // namespace tessera
