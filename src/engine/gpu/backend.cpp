// Ranks that compute on GPUs. Code that needs CUDA is behind the functions of src/cuda.

#include <algorithm>
#include <vector>

#include "engine/backends.hpp"
#include "engine/gpu/compute.hpp"
#include "engine/gpu/player.hpp"
#include "tessera/backend/cuda_device.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/engine/peers.hpp"
#include "tessera/schedule/collective_sizes.hpp"

namespace tessera {

namespace {

/// Returns a rank's index among the ranks of its machine.
std::int64_t local_index(RankContext& context) {
  const std::vector<std::string> machines = context.control().all_gather(context.machine());
  return std::count(machines.begin(), machines.begin() + static_cast<std::ptrdiff_t>(context.rank()),
                    context.machine());
}

/// Finds ranks that came to the same GPU in different ways (masks of the job system, say), by the GPU's own name.
void require_own_device(RankContext& context, const Device& device) {
  const std::vector<std::string> all = context.control().all_gather(device.identity());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto other = std::find(all.begin() + static_cast<std::ptrdiff_t>(rank) + 1, all.end(), all[rank]);
    if (other == all.end()) continue;
    throw refusal("ranks {} and {} compute on one GPU, {}", rank, other - all.begin(), all[rank])
        .use("a GPU for each rank, fewer ranks on the machine, or run.share_gpu = true");
  }
}

/// Opens a transport for collectives of these sizes. `staging` is null if the plan has none.
std::unique_ptr<DeviceCommBackend> open_transport(const Resources& all, const StepSchedule& schedule,
                                                  const LargestBuffers& largest, const SharedRegion* staging) {
  DeviceCommSettings settings{all.settings};
  settings.largest_full = largest.full;
  settings.largest_result = largest.result;
  settings.external_workspace = true;
  settings.staging = staging;
  if (schedule.reserved(Reserved::messages))
    settings.messages = all.memory->bytes_of(schedule, schedule.reserved(Reserved::messages));
  return make_device_comm_backend(all.context, *all.device, settings);
}

/// Opens the transport, the shared region in its memory, and a communicator for each queue and group. Notes what they
/// take outside the plan. Collective over the world. UsageError if a rank has another version of NCCL than rank 0.
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

/// Returns the bytes of a GPU with `total` that a rank's plan must leave free for cuBLASLt, cuDNN, graphs, and NCCL's
/// communicators. It is an estimate, because none of them tells beforehand; at most a quarter of the GPU.
std::int64_t kept_free_bytes(const StepSchedule& schedule, CommBackend backend, std::int64_t total) {
  constexpr std::int64_t kLibraries = std::int64_t{1} << 30, kCommunicator = std::int64_t{1} << 30;
  const auto opened = static_cast<std::int64_t>(wanted_communicators(schedule).size());
  return std::min(total / 4, kLibraries + (backend == CommBackend::staged ? 0 : opened * kCommunicator));
}

class GpuBackend final : public Backend {
 public:
  std::unique_ptr<Device> open_device(RankContext& context, bool share) const override {
    // If there are more ranks than GPUs here, they need not share them: a job system may show each rank different ones.
    const int count = cuda_device_count();
    auto device = make_cuda_device(count > 0 ? static_cast<int>(local_index(context) % count) : 0);
    // Other GPUs round differently and take different times.
    require_equal(context, device->model(), "GPUs of one kind for all ranks");
    if (!share) require_own_device(context, *device);
    return device;
  }

  std::unique_ptr<RankCompute> make_compute(Device& device, const ResourceSettings& settings, std::byte* workspace,
                                            const ModelParts* model, RankContext* peers) const override {
    return std::make_unique<GpuCompute>(device, settings, workspace, model, peers);
  }

  void open(Resources& all, const StepSchedule& schedule, const MemoryPlan& plan) const override {
    all.compute = std::make_unique<GpuCompute>(*all.device, all.settings,
                                               all.address(schedule.reserved(Reserved::kernel_workspace)),
                                               &schedule.model, &all.context);
    require_same_kernels(all);
    all.communicators = open_gpu_communicators(all, schedule, plan);
    all.unplanned.push_back({kept_free_bytes(schedule, all.settings.comm.backend, all.device->total_memory()),
                             "of the GPU kept free for libraries and NCCL"});
    all.description = all.compute->description();
    if (const auto* transport = all.communicators->transport()) all.description.text += ", " + transport->description();
    if (const std::string remark = all.compute->gemm_remark(); !remark.empty()) all.description.text += ", " + remark;
  }

  std::unique_ptr<Player> make_player(const StepSchedule& schedule, Resources& resources, Optimizer& optimizer,
                                      const PlayerSettings& settings) const override {
    return std::make_unique<GpuPlayer>(schedule, resources, optimizer, settings);
  }

  /// Returns a rank's share, once all that share the GPU have opened it.
  UsableMemory usable_memory(RankContext& context, const Options& options, const StepSchedule& schedule,
                             int) const override {
    const auto device = open_device(context, options.run.share_gpu);
    if (options.comm.backend != CommBackend::staged && !wanted_communicators(schedule).empty())
      require_nccl(context, *device, options.comm);
    const std::vector<std::string> all = context.control().all_gather(device->identity());
    const std::int64_t ranks = std::count(all.begin(), all.end(), device->identity());
    const std::int64_t kept = kept_free_bytes(schedule, options.comm.backend, device->total_memory() / ranks);
    return {std::max<std::int64_t>(1, device->free_memory() / ranks - kept),
            fmt::format(" of free memory on the GPU, {} kept for libraries and collectives", format_bytes(kept))};
  }
};

}  // namespace

const Backend& gpu_backend() {
  static const GpuBackend backend;
  return backend;
}

}  // namespace tessera
