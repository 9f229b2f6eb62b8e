#include <cstdlib>
#include <map>

#include "cuda/comm/nccl/nccl_api.hpp"
#include "cuda/comm/nccl/nccl_backend.hpp"
#include "cuda/comm/staged/staged_backend.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera {

namespace {

/// NCCL refuses a GPU with two ranks, unless an option allows it (2.30 and newer) or makes them look like two machines.
bool nccl_may_share() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): at start, one thread
  return std::getenv("NCCL_MULTI_RANK_GPU_ENABLE") != nullptr || std::getenv("NCCL_HOSTID") != nullptr;
}

/// Returns two ranks of one GPU, {-1, -1} when there are none. Collective.
std::pair<std::int64_t, std::int64_t> ranks_that_share(RankContext& context, const Device& device) {
  const auto identities = context.control().all_gather(device.identity());
  std::map<std::string, std::int64_t> owner;
  for (std::int64_t rank = 0; rank < context.size(); ++rank) {
    const auto [it, first] = owner.emplace(identities[static_cast<std::size_t>(rank)], rank);
    if (!first) return {it->second, rank};
  }
  return {-1, -1};
}

}  // namespace

void require_nccl(RankContext& context, const Device& device, const CommOptions& options) {
  if (options.emulate.on())
    throw refusal("comm.emulate slows down the host's collectives, but not NCCL's").use("comm.backend = staged");
  const auto [first, second] = ranks_that_share(context, device);
  if (first >= 0 && !nccl_may_share()) {
    throw refusal("ranks {} and {} share a GPU ({}), which NCCL refuses", first, second, device.identity())
        .use("comm.backend = staged, a GPU for each rank, or NCCL 2.30 with NCCL_MULTI_RANK_GPU_ENABLE=1");
  }
  nccl_api();
}

std::unique_ptr<DeviceCommBackend> make_device_comm_backend(RankContext& context, Device& device,
                                                            const DeviceCommSettings& settings) {
  if (settings.comm.backend == CommBackend::staged) {
    return std::make_unique<StagedBackend>(context, device, settings);
  }
  require_nccl(context, device, settings.comm);
  return std::make_unique<NcclBackend>(context, device, settings);
}

std::string nccl_version() {
  try {
    return nccl_api().version_text();
  } catch (const Error& error) {
    return fmt::format("none: {}", error.what());
  }
}

}  // namespace tessera
