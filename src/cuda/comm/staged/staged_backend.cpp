#include "cuda/comm/staged/staged_backend.hpp"

#include "cuda/comm/staged/staged_communicator.hpp"
#include "tessera/base/format.hpp"
#include "tessera/comm/make_communicator.hpp"

namespace tessera {

StagedBackend::StagedBackend(RankContext& context, Device& device, const DeviceCommSettings& settings)
    : context_(context),
      device_(device),
      settings_(settings),
      channel_(context, device, settings.largest_full, settings.largest_result, settings.staging) {}

std::string StagedBackend::description() const {
  return fmt::format("staged through {} of pinned host memory, sums in a fixed tree on the host",
                     format_bytes(channel_.region().size()));
}

std::unique_ptr<DeviceMemory> StagedBackend::allocate_shared(std::int64_t bytes) {
  return device_.allocate(MemoryKind::device, bytes);
}

std::unique_ptr<Communicator> StagedBackend::open(const ProcessGrid& grid, Group group, const std::string& name,
                                                  std::int64_t largest_contribution) {
  TESSERA_ASSERT(grid.size(group) > 1, "communicator '{}' has one rank: there is nobody to talk to", name);
  channel_.check_room(largest_contribution, 0);
  CommunicatorOptions options;
  options.timeout_seconds = settings_.timeout_seconds;
  options.force_pairwise = settings_.force_pairwise;
  options.external_workspace = !settings_.messages.empty();
  auto inner = make_communicator(context_, grid, group, channel_.region(), name, options);
  message_bytes_ += staging_bytes(grid, group, options);
  inner->set_workspace(settings_.messages);
  return std::make_unique<StagedCommunicator>(channel_, make_emulated(std::move(inner), settings_.comm.emulate));
}

}  // namespace tessera
