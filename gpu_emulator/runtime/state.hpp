#pragma once
// State that the emulated runtime's files share.

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace emulator {

/// The priorities that an emulated GPU knows, as an H200's: they are checked, but change nothing.
inline constexpr int kLeastPriority = 0, kGreatestPriority = -5;

/// A captured piece of work and the earlier ones that it waits for.
struct Node {
  std::function<void()> work;
  std::vector<std::size_t> after;
};

/// A capture under way: nodes in the order in which they were submitted.
struct Capture {
  std::vector<Node> nodes;
  cudaStream_t origin = nullptr;
  std::vector<cudaStream_t> streams;  ///< the origin and those that joined
};

/// Lets device memory be touched while it lives, in any thread. Once a host has waited for a stream and no work runs,
/// memory is out of bounds for all. So a host that reads a device's pointer crashes here as it would on a real
/// machine.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

/// Unless work runs.
void close_device_memory();

/// Sleeps sometimes, by seed.
void maybe_delay(std::minstd_rand& random);
std::uint64_t chaos_seed();

/// Sets the calling thread's last error and hands it back.
cudaError_t report(cudaError_t code);
/// The device that the calling thread has chosen.
int current_device();
/// Whether the calling thread has begun a capture that has not ended: many calls are forbidden then.
bool& thread_captures();
void note_failure(const std::string& text);

/// The default stream of the calling thread's device for null.
cudaStream_t resolve(cudaStream_t stream);
cudaError_t synchronize_device();
cudaError_t synchronize(cudaStream_t stream);

}  // namespace emulator

/// A stream: a thread that takes pieces of work from a queue, one after the other.
struct CUstream_st {
  explicit CUstream_st(int device);
  ~CUstream_st();
  void push(std::function<void()> entry);
  cudaError_t drain();
  bool idle();

  int device;
  std::shared_ptr<emulator::Capture> capture;  ///< touched by the threads that submit
  std::vector<std::size_t> frontier;           ///< nodes that the next captured one waits for
  cudaError_t failure = cudaSuccess;           ///< under lock

 private:
  void work();
  std::mutex lock_;
  std::condition_variable filled_, emptied_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false, stop_ = false;
  std::minstd_rand random_;
  std::thread thread_;
};

/// An event: which record was the last, and which were not reached yet. Who waits, waits for the record that was the
/// last when it asked, whatever is recorded after it.
struct CUevent_st {
  bool timing = false;
  std::mutex lock;
  std::condition_variable changed;
  std::int64_t recorded = 0;       ///< number of the last record
  std::set<std::int64_t> pending;  ///< records not reached yet: on several streams they come in any order
  bool reached(std::int64_t record) const { return !pending.contains(record); }
  std::chrono::steady_clock::time_point time;
  cudaError_t failure = cudaSuccess;         ///< of the stream, when the last record was reached
  std::weak_ptr<emulator::Capture> capture;  ///< of the last record, if that was captured
  bool captured = false;
  std::vector<std::size_t> frontier;
};

struct CUgraph_st {
  std::vector<emulator::Node> nodes;
};

struct CUgraphExec_st {
  std::vector<emulator::Node> nodes;
  std::int64_t launches = 0;
};
