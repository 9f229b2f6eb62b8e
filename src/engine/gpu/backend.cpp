// Ranks that compute on GPUs. Code that needs CUDA is behind the functions of src/cuda.

#include <algorithm>
#include <vector>

#include "engine/backends.hpp"
#include "engine/gpu/communicators.hpp"
#include "engine/gpu/compute.hpp"
#include "engine/gpu/player.hpp"
#include "tessera/backend/cuda_device.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"

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
    if (const auto* transport = all.communicators->transport()) all.description += ", " + transport->description();
    if (const std::string remark = all.compute->gemm_remark(); !remark.empty()) all.description += ", " + remark;
  }

  std::unique_ptr<Player> make_player(const StepSchedule& schedule, Resources& resources, Optimizer& optimizer,
                                      const PlayerSettings& settings) const override {
    return std::make_unique<GpuPlayer>(schedule, resources, optimizer, settings);
  }

  /// Returns a rank's share, once all that share the GPU have opened it.
  UsableMemory usable_memory(RankContext& context, const Options& options, const StepSchedule& schedule,
                             int) const override {
    const auto device = open_device(context, options.run.share_gpu);
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
