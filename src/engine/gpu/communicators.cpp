#include "engine/gpu/communicators.hpp"

#include <algorithm>

#include "tessera/engine/peers.hpp"
#include "tessera/schedule/collective_sizes.hpp"

namespace tessera {

namespace {

/// Opens a transport for collectives of these sizes. `staging` is null if the plan has none.
std::unique_ptr<DeviceCommBackend> open_transport(const Resources& all, const StepSchedule& schedule,
                                                  const LargestBuffers& largest, const SharedRegion* staging) {
  DeviceCommSettings settings;
  settings.comm = all.settings.comm;
  settings.deterministic = all.settings.deterministic;
  settings.timeout_seconds = all.settings.timeout_seconds;
  settings.force_pairwise = all.settings.force_pairwise;
  settings.largest_full = largest.full;
  settings.largest_result = largest.result;
  settings.external_workspace = true;
  settings.staging = staging;
  if (schedule.reserved(Reserved::messages))
    settings.messages = all.memory->bytes_of(schedule, schedule.reserved(Reserved::messages));
  return make_device_comm_backend(all.context, *all.device, settings);
}

}  // namespace

std::unique_ptr<Communicators> open_gpu_communicators(Resources& all, const StepSchedule& schedule,
                                                      const MemoryPlan& plan) {
  const auto wanted = wanted_communicators(schedule);
  const std::int64_t shared = plan.region(MemorySpace::device, RegionKind::shared).bytes;
  if (wanted.empty())
    return std::make_unique<Communicators>(nullptr, nullptr, all.device->allocate(MemoryKind::device, shared));
  // Another version may not be able to talk to ours at all, so this is checked before NCCL waits.
  if (all.settings.comm.backend != CommBackend::staged)
    require_equal(all.context, "NCCL " + nccl_version(), "one version for all ranks");
  const LargestBuffers largest = largest_buffers(schedule);
  std::unique_ptr<SharedRegion> staging;
  if (schedule.reserved(Reserved::staging))
    staging = std::make_unique<SharedRegion>(all.context, plan.region(MemorySpace::host, RegionKind::shared).bytes);
  auto opened = open_transport(all, schedule, largest, staging.get());
  DeviceCommBackend& transport = *opened;
  auto on_device = transport.allocate_shared(shared);
  auto communicators = std::make_unique<Communicators>(std::move(staging), std::move(opened), std::move(on_device));
  for (const QueueGroup& key : wanted) {
    const auto contribution = largest.contribution.find(key);
    communicators->add(key, transport.open(all.grid, key.second, std::string(name_of(key.first)),
                                           contribution == largest.contribution.end() ? 0 : contribution->second));
  }
  if (transport.pinned_bytes() > 0)
    all.unplanned.push_back({transport.pinned_bytes(), "pinned on the host for collectives"});
  if (transport.device_bytes() > 0)
    all.unplanned.push_back({transport.device_bytes(), "on the device for collectives"});
  return communicators;
}

std::int64_t kept_free_bytes(const StepSchedule& schedule, CommBackend backend, std::int64_t total) {
  constexpr std::int64_t kLibraries = std::int64_t{1} << 30, kCommunicator = std::int64_t{1} << 30;
  const auto opened = static_cast<std::int64_t>(wanted_communicators(schedule).size());
  return std::min(total / 4, kLibraries + (backend == CommBackend::staged ? 0 : opened * kCommunicator));
}

}  // namespace tessera
