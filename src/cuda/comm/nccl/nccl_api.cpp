#include "cuda/comm/nccl/nccl_api.hpp"

#include "tessera/base/refuse.hpp"
#include "tessera/cuda/library.hpp"

namespace tessera {

namespace {

/// Since this version work of several communicators starts in the order of issue (NCCL_LAUNCH_ORDER_IMPLICIT). Older
/// ones may wait for each other across ranks and never finish.
constexpr int kOldestVersion = 22600;

struct LoadedNccl {
  DynamicLibrary library;
  NcclApi api;

  LoadedNccl() : library(open_cuda_library({"NCCL", {"libnccl.so.2"}, {"nccl"}})) {
    api.error_string = TESSERA_LIBRARY_FUNCTION(library, ncclGetErrorString);
    api.last_error = TESSERA_LIBRARY_FUNCTION(library, ncclGetLastError);
    const auto get_version = TESSERA_LIBRARY_FUNCTION(library, ncclGetVersion);
    if (get_version(&api.version) != ncclSuccess || api.version < kOldestVersion) {
      throw refusal("NCCL {} of {} is too old", api.version_text(), library.path())
          .use("2.26 or newer, or comm.backend = staged");
    }
    api.unique_id = TESSERA_LIBRARY_FUNCTION(library, ncclGetUniqueId);
    api.init = TESSERA_LIBRARY_FUNCTION(library, ncclCommInitRankConfig);
    api.finalize = TESSERA_LIBRARY_FUNCTION(library, ncclCommFinalize);
    api.destroy = TESSERA_LIBRARY_FUNCTION(library, ncclCommDestroy);
    api.async_error = TESSERA_LIBRARY_FUNCTION(library, ncclCommGetAsyncError);
    api.all_gather = TESSERA_LIBRARY_FUNCTION(library, ncclAllGather);
    api.reduce_scatter = TESSERA_LIBRARY_FUNCTION(library, ncclReduceScatter);
    api.all_reduce = TESSERA_LIBRARY_FUNCTION(library, ncclAllReduce);
    api.broadcast = TESSERA_LIBRARY_FUNCTION(library, ncclBroadcast);
    api.send = TESSERA_LIBRARY_FUNCTION(library, ncclSend);
    api.receive = TESSERA_LIBRARY_FUNCTION(library, ncclRecv);
    api.group_start = TESSERA_LIBRARY_FUNCTION(library, ncclGroupStart);
    api.group_end = TESSERA_LIBRARY_FUNCTION(library, ncclGroupEnd);
    api.path = library.path();
  }
};

}  // namespace

std::string NcclApi::version_text() const {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

const NcclApi& nccl_api() {
  static const auto* const loaded = new LoadedNccl;  // never closed, see the header
  return loaded->api;
}

void check_nccl(ncclResult_t result, const char* call, const std::string& communicator) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const NcclApi& nccl = nccl_api();
  const char* const more = nccl.last_error(nullptr);
  throw CommunicationError("{} of '{}' failed ({}): {}. NCCL_DEBUG=INFO tells more.", call, communicator,
                           nccl.error_string(result), more != nullptr && *more != 0 ? more : "no details");
}

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::fp16:
      return ncclFloat16;
    case DType::fp64:
      return ncclFloat64;
    case DType::int32:
      return ncclInt32;
    case DType::int64:
      return ncclInt64;
    case DType::byte:
      return ncclInt8;
  }
  throw InternalError("NCCL has no type {}", static_cast<int>(dtype));
}

}  // namespace tessera
