#pragma once
// NCCL's types as far as they are used here, under its own names. They are written out because NCCL is not part of a
// CUDA toolkit, so that a build needs no header of it and the library found at run time tells its version. A test
// compares them with the header where there is one (gpu_emulator/libraries/nccl/check_abi.cpp).

#include <cuda_runtime_api.h>

#include <climits>
#include <cstddef>

// NOLINTBEGIN(readability-identifier-naming): the library's names
struct ncclComm;
using ncclComm_t = ncclComm*;

struct ncclUniqueId {
  char internal[128];
};

enum ncclResult_t : unsigned {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

enum ncclDataType_t : unsigned {
  ncclInt8 = 0,
  ncclInt32 = 2,
  ncclInt64 = 4,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
};

enum ncclRedOp_t : unsigned { ncclSum = 0, ncclMax = 2 };
// NOLINTEND(readability-identifier-naming)

/// The version that these declarations are of: 2.28.9.
inline constexpr int kNcclAbiVersion = 22809;
/// A setting that is left to NCCL.
inline constexpr int kNcclUnset = INT_MIN;

// NOLINTNEXTLINE(readability-identifier-naming): the library's name
struct ncclConfig_t {
  // By these the library knows which fields exist, whichever is newer.
  std::size_t size = sizeof(ncclConfig_t);
  unsigned magic = 0xcafebeef, version = kNcclAbiVersion;

  int blocking = kNcclUnset, cgaClusterSize = kNcclUnset, minCTAs = kNcclUnset, maxCTAs = kNcclUnset;
  const char* netName = nullptr;
  int splitShare = kNcclUnset, trafficClass = kNcclUnset;
  const char* commName = nullptr;
  int collnetEnable = kNcclUnset, CTAPolicy = kNcclUnset, shrinkShare = kNcclUnset, nvlsCTAs = kNcclUnset;
  int nChannelsPerNetPeer = kNcclUnset, nvlinkCentricSched = kNcclUnset;
};

#if !defined(TESSERA_NCCL_TYPES_ONLY)
#include "cuda/comm/nccl/nccl_functions.inc"
#endif
