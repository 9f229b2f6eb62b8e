#pragma once
// Streams and events of CUDA behind the interfaces of backend/stream.hpp. A task runs at once on the submitting thread
// and launches kernels. The GPU does the waiting, so an order between streams never blocks the host.

#include <cuda_runtime_api.h>

#include "tessera/backend/device.hpp"

namespace tessera {

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(EventUse use);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  void synchronize() override;
  bool is_reached() override;
  cudaEvent_t native() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaStream final : public Stream {
 public:
  explicit CudaStream(StreamPriority priority = StreamPriority::normal);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  void submit(Task task) override { task.run(task.self, task.argument, *this); }
  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override;
  void* native() override { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Casts to CUDA's event; InternalError for an event of another device.
CudaEvent& cuda_event(Event& event);

class CudaGraph final : public DeviceGraph {
 public:
  /// Takes the captured graph and makes it ready to be launched.
  explicit CudaGraph(cudaGraph_t captured);
  ~CudaGraph() override;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  void launch(Stream& stream) override;
  std::int64_t nodes() const override { return nodes_; }

 private:
  cudaGraphExec_t executable_ = nullptr;
  std::int64_t nodes_ = 0;
};

}  // namespace tessera
