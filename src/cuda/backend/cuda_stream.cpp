#include "cuda/backend/cuda_stream.hpp"

#include "tessera/base/error.hpp"
#include "tessera/cuda/check.hpp"

namespace tessera {

CudaEvent::CudaEvent(EventUse use) {
  const unsigned flags = use == EventUse::timing ? cudaEventDefault : cudaEventDisableTiming;
  TESSERA_CHECK_CUDA(cudaEventCreateWithFlags(&event_, flags));
}

// Errors in closing handles are ignored: the one that matters was thrown by an earlier call.
CudaEvent::~CudaEvent() { static_cast<void>(cudaEventDestroy(event_)); }

void CudaEvent::synchronize() { TESSERA_CHECK_CUDA(cudaEventSynchronize(event_)); }

bool CudaEvent::is_reached() {
  if (cudaEventQuery(event_) != cudaErrorNotReady) return true;
  static_cast<void>(cudaGetLastError());  // "not ready" counts as the thread's last error
  return false;
}

CudaEvent& cuda_event(Event& event) {
  auto* const mine = dynamic_cast<CudaEvent*>(&event);
  TESSERA_ASSERT(mine != nullptr, "a CUDA stream was given an event of another device");
  return *mine;
}

CudaStream::CudaStream(StreamPriority priority) {
  int least = 0, greatest = 0;  // the greatest priority has the lowest number
  TESSERA_CHECK_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  TESSERA_CHECK_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                                  priority == StreamPriority::high ? greatest : least));
}

CudaStream::~CudaStream() { static_cast<void>(cudaStreamDestroy(stream_)); }

void CudaStream::record(Event& event) { TESSERA_CHECK_CUDA(cudaEventRecord(cuda_event(event).native(), stream_)); }

void CudaStream::wait(Event& event) {
  TESSERA_CHECK_CUDA(cudaStreamWaitEvent(stream_, cuda_event(event).native(), cudaEventWaitDefault));
}

void CudaStream::synchronize() { TESSERA_CHECK_CUDA(cudaStreamSynchronize(stream_)); }

CudaGraph::CudaGraph(cudaGraph_t captured) {
  std::size_t nodes = 0;
  const cudaError_t counted = cudaGraphGetNodes(captured, nullptr, &nodes);
  // Nodes keep the priority of their stream at the capture.
  const cudaError_t made = counted == cudaSuccess
                               ? cudaGraphInstantiate(&executable_, captured, cudaGraphInstantiateFlagUseNodePriority)
                               : counted;
  static_cast<void>(cudaGraphDestroy(captured));
  TESSERA_CHECK_CUDA(made);
  nodes_ = static_cast<std::int64_t>(nodes);
}

CudaGraph::~CudaGraph() { static_cast<void>(cudaGraphExecDestroy(executable_)); }

void CudaGraph::launch(Stream& stream) {
  TESSERA_CHECK_CUDA(cudaGraphLaunch(executable_, static_cast<cudaStream_t>(stream.native())));
}

}  // namespace tessera
