#include "cuda/comm/nccl/nccl_api.hpp"

#include "tessera/base/refuse.hpp"

namespace tessera {

namespace {

/// Since this version work of several communicators starts in the order of issue (NCCL_LAUNCH_ORDER_IMPLICIT). Older
/// ones may wait for each other across ranks and never finish.
constexpr int kOldestVersion = 22600;

std::string text_of(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

int version_of(const DynamicLibrary& library) {
  int version = 0;
  if (TESSERA_LIBRARY_FUNCTION(library, ncclGetVersion)(&version) == ncclSuccess && version >= kOldestVersion)
    return version;
  throw refusal("NCCL {} of {} is too old", text_of(version), library.path())
      .use("2.26 or newer, or comm.backend = staged");
}

}  // namespace

NcclApi::NcclApi() : library(open_cuda_library({"NCCL", {"libnccl.so.2"}, {"nccl"}})), version(version_of(library)) {}

std::string NcclApi::version_text() const { return text_of(version); }

const NcclApi& nccl_api() {
  static const auto* const loaded = new NcclApi;  // never closed, see the header
  return *loaded;
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
    case DType::e4m3:
    case DType::e5m2:
      return ncclInt8;  // it is only moved
  }
  throw InternalError("NCCL has no type {}", static_cast<int>(dtype));
}

}  // namespace tessera
