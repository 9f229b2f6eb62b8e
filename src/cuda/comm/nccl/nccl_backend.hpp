#pragma once
// Communication of GPUs through NCCL: comm.backend = nccl.

#include <memory>
#include <string>
#include <vector>

#include "cuda/comm/nccl/nccl_communicator.hpp"
#include "tessera/comm/device_comm_backend.hpp"

namespace tessera {

class NcclBackend final : public DeviceCommBackend {
 public:
  /// UsageError when NCCL is not found or too old, and for comm.emulate.
  NcclBackend(RankContext& context, Device& device, const DeviceCommSettings& settings);

  CommBackend backend() const override { return CommBackend::nccl; }
  std::string description() const override;
  std::unique_ptr<DeviceMemory> allocate_shared(std::int64_t bytes) override;
  std::unique_ptr<Communicator> open(const ProcessGrid& grid, Group group, const std::string& name,
                                     std::int64_t largest_contribution) override;
  void warm_up(Stream& stream) override;
  void watch_until_done(Stream& stream, const std::string& what) override;
  void check() override;
  std::int64_t pinned_bytes() const override { return 0; }
  std::int64_t device_bytes() const override;

 private:
  NcclContext context_;
  std::vector<std::string> environment_;  ///< the variables set here, for the log
  std::unique_ptr<NcclWatchdog> watchdog_;
  std::vector<NcclCommunicator*> open_;  ///< in the order in which they were opened
};

}  // namespace tessera
