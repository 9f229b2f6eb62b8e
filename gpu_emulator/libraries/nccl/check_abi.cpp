// src/cuda/comm/nccl/nccl_abi.hpp and the functions next to it against NCCL's own header, where there is one that is
// new enough.

#if __has_include(<nccl.h>)
#include <nccl.h>

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
#include <climits>
#include <cstddef>

// The same for functions: with other types this would not compile.
#include "cuda/comm/nccl/nccl_functions.inc"

namespace ours {
#define TESSERA_NCCL_TYPES_ONLY
#include "cuda/comm/nccl/nccl_abi.hpp"
}  // namespace ours

namespace {

#define SAME(name) static_assert(static_cast<int>(ours::name) == static_cast<int>(name))
SAME(ncclSuccess);
SAME(ncclUnhandledCudaError);
SAME(ncclInvalidArgument);
SAME(ncclInvalidUsage);
SAME(ncclRemoteError);
SAME(ncclInProgress);
SAME(ncclInt8);
SAME(ncclInt32);
SAME(ncclInt64);
SAME(ncclFloat16);
SAME(ncclFloat32);
SAME(ncclFloat64);
SAME(ncclBfloat16);
SAME(ncclSum);
SAME(ncclMax);
#undef SAME

static_assert(ours::kNcclUnset == NCCL_CONFIG_UNDEF_INT);
static_assert(sizeof(ours::ncclResult_t) == sizeof(ncclResult_t));
static_assert(sizeof(ours::ncclDataType_t) == sizeof(ncclDataType_t));
static_assert(sizeof(ours::ncclUniqueId) == sizeof(ncclUniqueId));

// A newer one has more fields at its end, and sees by `size` that ours does not.
static_assert(sizeof(ours::ncclConfig_t) <= sizeof(ncclConfig_t));
static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0) || sizeof(ours::ncclConfig_t) == sizeof(ncclConfig_t));
#define SAME(field) static_assert(offsetof(ours::ncclConfig_t, field) == offsetof(ncclConfig_t, field))
SAME(size);
SAME(magic);
SAME(version);
SAME(blocking);
SAME(cgaClusterSize);
SAME(minCTAs);
SAME(maxCTAs);
SAME(netName);
SAME(splitShare);
SAME(trafficClass);
SAME(commName);
SAME(collnetEnable);
SAME(CTAPolicy);
SAME(shrinkShare);
SAME(nvlsCTAs);
SAME(nChannelsPerNetPeer);
SAME(nvlinkCentricSched);
#undef SAME

constexpr ncclConfig_t kTheirs = NCCL_CONFIG_INITIALIZER;
constexpr ours::ncclConfig_t kOurs{};
static_assert(kOurs.magic == kTheirs.magic && kOurs.blocking == kTheirs.blocking && kOurs.netName == kTheirs.netName &&
              kOurs.nvlinkCentricSched == kTheirs.nvlinkCentricSched);

}  // namespace
#endif
#endif
