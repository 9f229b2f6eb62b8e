#pragma once
// NCCL as a table of functions, looked up on demand: the executable starts without it.

#include <string>

#include "cuda/comm/nccl/nccl_abi.hpp"
#include "tessera/base/dtype.hpp"

namespace tessera {

struct NcclApi {
  decltype(&::ncclGetErrorString) error_string;
  decltype(&::ncclGetLastError) last_error;
  decltype(&::ncclGetUniqueId) unique_id;
  decltype(&::ncclCommInitRankConfig) init;
  decltype(&::ncclCommFinalize) finalize;
  decltype(&::ncclCommDestroy) destroy;
  decltype(&::ncclCommGetAsyncError) async_error;
  decltype(&::ncclAllGather) all_gather;
  decltype(&::ncclReduceScatter) reduce_scatter;
  decltype(&::ncclAllReduce) all_reduce;
  decltype(&::ncclBroadcast) broadcast;
  decltype(&::ncclSend) send;
  decltype(&::ncclRecv) receive;
  decltype(&::ncclGroupStart) group_start;
  decltype(&::ncclGroupEnd) group_end;
  int version = 0;  ///< 22809 is 2.28.9
  std::string path;

  /// Returns "2.28.9"
  std::string version_text() const;
};

/// Returns the library, loaded at the first call and kept to the end of the process. NCCL has its own threads, and code
/// cannot be unloaded under them. UsageError when none is found, or one that is too old (2.26).
const NcclApi& nccl_api();

/// Throws CommunicationError with NCCL's own text unless `result` is ncclSuccess. `call` is the function's name.
void check_nccl(ncclResult_t result, const char* call, const std::string& communicator);

/// Returns NCCL's name of an element type; InternalError for one that collectives do not carry.
ncclDataType_t nccl_type(DType dtype);

}  // namespace tessera
