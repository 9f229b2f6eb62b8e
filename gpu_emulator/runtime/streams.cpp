// Streams and events.

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <string_view>
#include <thread>

#include "gpu_emulator/runtime/enqueue.hpp"
#include "gpu_emulator/runtime/state.hpp"

namespace {

struct Streams {
  std::mutex lock, default_lock;
  std::set<cudaStream_t> all;
  std::map<int, std::unique_ptr<CUstream_st>> of_device;  ///< default streams
};

// Never destroyed, because a test may forget streams, whose threads still need it.
Streams& streams() {
  static auto* const all = new Streams;
  return *all;
}

std::atomic<bool> stuck{false}, writes{true};

}  // namespace

void emulator::stick_driver() { stuck = true; }
void emulator::set_stream_writes(bool can) { writes = can; }

CUstream_st::CUstream_st(int on_device) : device(on_device) {
  static std::atomic<std::uint64_t> count{0};
  random_.seed(static_cast<unsigned>(emulator::chaos_seed() * 977 + ++count));
  thread_ = std::thread([this] { work(); });
  const std::lock_guard guard(streams().lock);
  streams().all.insert(this);
}

CUstream_st::~CUstream_st() {
  {
    const std::lock_guard guard(streams().lock);
    streams().all.erase(this);
  }
  {
    const std::lock_guard guard(lock_);
    stop_ = true;
  }
  filled_.notify_all();
  thread_.join();
}

void CUstream_st::push(std::function<void()> entry) {
  {
    const std::lock_guard guard(lock_);
    queue_.push_back(std::move(entry));
  }
  filled_.notify_one();
}

cudaError_t CUstream_st::drain() {
  std::unique_lock guard(lock_);
  emptied_.wait(guard, [&] { return queue_.empty() && !busy_; });
  emulator::close_device_memory();
  return failure;
}

bool CUstream_st::idle() {
  const std::lock_guard guard(lock_);
  return queue_.empty() && !busy_;
}

void CUstream_st::work() {
  std::unique_lock guard(lock_);
  for (;;) {
    filled_.wait(guard, [&] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto entry = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    guard.unlock();
    emulator::maybe_delay(random_);
    cudaError_t result = cudaSuccess;
    try {
      entry();
    } catch (const std::exception& error) {
      emulator::note_failure(error.what());
      result = cudaErrorLaunchFailure;
    }
    guard.lock();
    if (failure == cudaSuccess) failure = result;
    busy_ = false;
    if (queue_.empty()) emptied_.notify_all();
  }
}

namespace emulator {

cudaStream_t resolve(cudaStream_t stream) {
  if (stream != nullptr) return stream;
  const int device = current_device();
  const std::lock_guard guard(streams().default_lock);
  auto& mine = streams().of_device[device];
  if (mine == nullptr) mine = std::make_unique<CUstream_st>(device);
  return mine.get();
}

void enqueue(cudaStream_t stream, std::function<void()> work) {
  stream = resolve(stream);
  if (stream->capture == nullptr) {
    stream->push([work = std::move(work)] {
      const DeviceAccess access;
      work();
    });
    return;
  }
  auto& nodes = stream->capture->nodes;
  nodes.push_back({std::move(work), stream->frontier});
  stream->frontier = {nodes.size() - 1};
}

cudaError_t synchronize(cudaStream_t stream) {
  stream = resolve(stream);
  if (stream->capture != nullptr) return cudaErrorStreamCaptureUnsupported;
  return stream->drain();
}

cudaError_t synchronize_device() {
  std::vector<cudaStream_t> mine;
  {
    const std::lock_guard guard(streams().lock);
    for (cudaStream_t const stream : streams().all) {
      if (stream->device == current_device()) mine.push_back(stream);
    }
  }
  cudaError_t result = cudaSuccess;
  for (cudaStream_t const stream : mine) {
    const cudaError_t one = stream->drain();
    if (result == cudaSuccess) result = one;
  }
  return result;
}

}  // namespace emulator

using emulator::report;

namespace {

/// cuStreamWriteValue32.
CUresult stream_write_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  cudaPointerAttributes place{};
  static_cast<void>(cudaPointerGetAttributes(&place, reinterpret_cast<void*>(address)));
  if (!writes) return CUDA_ERROR_NOT_SUPPORTED;
  if (place.type == cudaMemoryTypeUnregistered || address % sizeof value != 0 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  emulator::enqueue(stream, [=] { std::atomic_ref(*reinterpret_cast<cuuint32_t*>(address)).store(value); });
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st(emulator::current_device());
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  if (priority > emulator::kLeastPriority || priority < emulator::kGreatestPriority)
    return report(cudaErrorInvalidValue);
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = emulator::kLeastPriority;
  *greatest = emulator::kGreatestPriority;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return report(emulator::synchronize(stream)); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  stream = emulator::resolve(stream);
  const std::unique_lock guard(event->lock);
  if (event->captured) {
    const auto capture = event->capture.lock();
    if (capture == nullptr || (stream->capture != nullptr && stream->capture != capture))
      return report(cudaErrorStreamCaptureIsolation);
    if (stream->capture == nullptr) {
      stream->capture = capture;
      stream->frontier.clear();
      capture->streams.push_back(stream);
    }
    stream->frontier.insert(stream->frontier.end(), event->frontier.begin(), event->frontier.end());
    return cudaSuccess;
  }
  if (stream->capture != nullptr && event->recorded > 0) return report(cudaErrorStreamCaptureIsolation);
  if (event->recorded == 0) return cudaSuccess;
  stream->push([event, generation = event->recorded] {
    std::unique_lock inner(event->lock);
    event->changed.wait(inner, [&] { return event->reached(generation); });
  });
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  stream = emulator::resolve(stream);
  if (stream->capture != nullptr) return report(cudaErrorStreamCaptureUnsupported);
  return stream->idle() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st;
  (*event)->timing = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  {
    std::unique_lock guard(event->lock);
    event->changed.wait(guard, [&] { return event->pending.empty(); });
  }
  // Streams may hold a wait for it that has not run yet. It is kept, because destroying it now must be safe, as on a
  // real GPU.
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  stream = emulator::resolve(stream);
  const std::lock_guard guard(event->lock);
  if (stream->capture != nullptr) {
    event->captured = true;
    event->capture = stream->capture;
    event->frontier = stream->frontier;
    return cudaSuccess;
  }
  event->captured = false;
  const std::int64_t generation = ++event->recorded;
  event->pending.insert(generation);
  stream->push([event, generation, stream] {
    const std::lock_guard inner(event->lock);
    event->pending.erase(generation);
    event->failure = stream->failure;
    if (generation == event->recorded) event->time = std::chrono::steady_clock::now();
    event->changed.notify_all();
  });
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::unique_lock guard(event->lock);
  if (event->captured) return report(cudaErrorCapturedEvent);
  event->changed.wait(guard, [&] { return event->reached(event->recorded); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  while (stuck) std::this_thread::sleep_for(std::chrono::seconds(1));
  const std::lock_guard guard(event->lock);
  if (event->captured) return report(cudaErrorCapturedEvent);
  // An earlier failure is reported here too, for the rest of the process.
  if (event->failure != cudaSuccess) return report(event->failure);
  return event->reached(event->recorded) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (!start->timing || !end->timing || start->captured || end->captured || start->recorded == 0 || end->recorded == 0)
    return report(cudaErrorInvalidResourceHandle);
  const std::scoped_lock guard(start->lock, end->lock);
  if (!start->reached(start->recorded) || !end->reached(end->recorded)) return report(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  stream = emulator::resolve(stream);
  if (stream->capture != nullptr) {
    emulator::enqueue(stream, [function, data] { function(data); });
    return cudaSuccess;
  }
  stream->push([function, data] { function(data); });
  return cudaSuccess;
}

#if CUDART_VERSION < 12050
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* found) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, found);
}
#endif

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const bool is_known = std::string_view(symbol) == "cuStreamWriteValue32" && version >= 11070;
  *function = is_known ? reinterpret_cast<void*>(&stream_write_value) : nullptr;
  *found = is_known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // extern "C"
