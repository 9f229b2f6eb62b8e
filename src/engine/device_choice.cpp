#include "tessera/engine/device_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tessera/backend/cuda_device.hpp"
#include "tessera/engine/require_equal.hpp"

namespace tessera {

DeviceChoice resolved_device(DeviceChoice choice) {
  if (choice == DeviceChoice::cpu) return choice;
  const bool there = cuda_device_count() > 0;
  if (choice == DeviceChoice::automatic) return there ? DeviceChoice::cuda : DeviceChoice::cpu;
  if (!there) throw UsageError("run.device = cuda ({}): cpu, auto, or a machine with a GPU", why_no_cuda_device());
  return choice;
}

std::string unused_gpu(DeviceChoice asked, DeviceChoice used, const std::filesystem::path& root) {
  if (used != DeviceChoice::cpu) return {};
  std::error_code ignored;
  if (!std::filesystem::exists(root / "proc/driver/nvidia/version", ignored)) return {};
  if (!built_with_cuda())
    return fmt::format(
        "an NVIDIA driver runs here, but {}: jobs/setup.sh builds it in where a CUDA toolkit is installed",
        why_no_cuda_device());
  if (asked != DeviceChoice::automatic) return {};
  return fmt::format(
      "an NVIDIA driver runs here, but this run computes on the CPU ({}); run.device = cpu if that is meant",
      why_no_cuda_device());
}

namespace {

/// A rank's place among the ranks of its machine.
std::int64_t local_index(RankContext& context) {
  const std::vector<std::string> machines = context.control().all_gather(context.machine());
  return std::count(machines.begin(), machines.begin() + static_cast<std::ptrdiff_t>(context.rank()),
                    context.machine());
}

/// Ranks that came to the same GPU by different ways (masks of the job system, for one) are found by its own name.
void require_own_device(RankContext& context, const Device& device) {
  const std::vector<std::string> all = context.control().all_gather(device.identity());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto other = std::find(all.begin() + static_cast<std::ptrdiff_t>(rank) + 1, all.end(), all[rank]);
    if (other == all.end()) continue;
    throw UsageError(
        "ranks {} and {} compute on one GPU ({}): a GPU for each rank, fewer ranks on the machine, or "
        "run.share_gpu = true",
        rank, other - all.begin(), all[rank]);
  }
}

}  // namespace

std::unique_ptr<Device> open_device(RankContext& context, DeviceKind kind, bool share) {
  if (kind == DeviceKind::cpu) return make_cpu_device();
  // More ranks than GPUs here need not share them: a job system may show each rank others.
  const int count = cuda_device_count();
  auto device = make_cuda_device(count > 0 ? static_cast<int>(local_index(context) % count) : 0);
  // Other GPUs round otherwise, and take other times.
  require_equal(context, device->model(), "GPUs of one kind for all ranks");
  if (!share) require_own_device(context, *device);
  return device;
}

std::int64_t ranks_on(RankContext& context, const Device& device) {
  const std::vector<std::string> all = context.control().all_gather(device.identity());
  return std::count(all.begin(), all.end(), device.identity());
}

}  // namespace tessera
