#include "cuda/backend/stream_writes.hpp"

#include <atomic>
#include <memory>

#include "tessera/base/error.hpp"
#include "tessera/cuda/check.hpp"

namespace tessera {

namespace {

using Write = PFN_cuStreamWriteValue32_v11070;

/// Returns the driver's function; null if it has none.
Write find_write() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  constexpr const char* kName = "cuStreamWriteValue32";
#if CUDART_VERSION >= 12050
  const cudaError_t code = cudaGetDriverEntryPointByVersion(kName, &function, 12000, cudaEnableDefault, &found);
#else
  const cudaError_t code = cudaGetDriverEntryPoint(kName, &function, cudaEnableDefault, &found);
#endif
  return code == cudaSuccess && found == cudaDriverEntryPointSuccess ? reinterpret_cast<Write>(function) : nullptr;
}

CUresult call(Write write, cudaStream_t stream, std::uint32_t* word, std::uint32_t value) {
  return write(stream, reinterpret_cast<CUdeviceptr>(word), value, CU_STREAM_WRITE_VALUE_DEFAULT);
}

/// Returns whether a captured write arrives.
bool works(Write write, cudaStream_t stream) {
  constexpr std::uint32_t kValue = 27;
  void* memory = nullptr;
  TESSERA_CHECK_CUDA(cudaMallocHost(&memory, sizeof kValue));
  const std::unique_ptr<void, void (*)(void*)> freed(memory, [](void* it) { static_cast<void>(cudaFreeHost(it)); });
  auto* const word = static_cast<std::uint32_t*>(memory);
  *word = 0;
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  const bool written = call(write, stream, word, kValue) == CUDA_SUCCESS;
  cudaGraph_t graph = nullptr;
  bool right = cudaStreamEndCapture(stream, &graph) == cudaSuccess && written;
  cudaGraphExec_t executable = nullptr;
  right = right && cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagUseNodePriority) == cudaSuccess &&
          cudaGraphLaunch(executable, stream) == cudaSuccess && cudaStreamSynchronize(stream) == cudaSuccess &&
          std::atomic_ref(*word).load() == kValue;
  if (executable != nullptr) static_cast<void>(cudaGraphExecDestroy(executable));
  if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  static_cast<void>(cudaGetLastError());
  return right;
}

}  // namespace

StreamWrites::StreamWrites(cudaStream_t stream) {
  if (const Write found = find_write(); found != nullptr && works(found, stream)) drivers_ = found;
}

void StreamWrites::write(cudaStream_t stream, std::uint32_t* word, std::uint32_t value) const {
  if (drivers_ == nullptr) return launch_store_word(stream, word, value);
  if (const CUresult code = call(drivers_, stream, word, value); code != CUDA_SUCCESS)
    throw DeviceError("cuStreamWriteValue32 failed (error {})", static_cast<int>(code));
}

}  // namespace tessera
