#pragma once
// NCCL as a table of functions, looked up on demand: the executable starts without it.

#include <string>

#include "cuda/comm/nccl/nccl_abi.hpp"
#include "tessera/base/dtype.hpp"
#include "tessera/cuda/library.hpp"

namespace tessera {

struct NcclApi {
  NcclApi();  ///< UsageError when the library is not found, or is too old
  /// Returns "2.28.9"
  std::string version_text() const;

  DynamicLibrary library;
  int version;  ///< 22809 is 2.28.9; looked at first, because older libraries lack functions
// NOLINTNEXTLINE(bugprone-macro-parentheses): a member is declared
#define TESSERA_NCCL_FUNCTION(member, name) decltype(&::name) member = TESSERA_LIBRARY_FUNCTION(library, name)
  TESSERA_NCCL_FUNCTION(error_string, ncclGetErrorString);
  TESSERA_NCCL_FUNCTION(last_error, ncclGetLastError);
  TESSERA_NCCL_FUNCTION(unique_id, ncclGetUniqueId);
  TESSERA_NCCL_FUNCTION(init, ncclCommInitRankConfig);
  TESSERA_NCCL_FUNCTION(finalize, ncclCommFinalize);
  TESSERA_NCCL_FUNCTION(destroy, ncclCommDestroy);
  TESSERA_NCCL_FUNCTION(async_error, ncclCommGetAsyncError);
  TESSERA_NCCL_FUNCTION(all_gather, ncclAllGather);
  TESSERA_NCCL_FUNCTION(reduce_scatter, ncclReduceScatter);
  TESSERA_NCCL_FUNCTION(all_reduce, ncclAllReduce);
  TESSERA_NCCL_FUNCTION(broadcast, ncclBroadcast);
  TESSERA_NCCL_FUNCTION(send, ncclSend);
  TESSERA_NCCL_FUNCTION(receive, ncclRecv);
  TESSERA_NCCL_FUNCTION(group_start, ncclGroupStart);
  TESSERA_NCCL_FUNCTION(group_end, ncclGroupEnd);
#undef TESSERA_NCCL_FUNCTION
};

/// Returns the library, loaded at the first call and kept to the end of the process. NCCL has its own threads, and code
/// cannot be unloaded under them. UsageError when none is found, or one that is too old (2.26).
const NcclApi& nccl_api();

/// Throws CommunicationError with NCCL's own text unless `result` is ncclSuccess. `call` is the function's name.
void check_nccl(ncclResult_t result, const char* call, const std::string& communicator);

/// Returns NCCL's name of an element type; InternalError for one that collectives do not carry.
ncclDataType_t nccl_type(DType dtype);

}  // namespace tessera
