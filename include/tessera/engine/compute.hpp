#pragma once
// The threads and kernels with which one rank computes.

#include <cstdint>
#include <string>

#include "tessera/backend/thread_pool.hpp"
#include "tessera/kernels/kernels.hpp"
#include "tessera/schedule/operation.hpp"

namespace tessera {

class RankCompute {
 public:
  RankCompute(int threads, int threads_on_cores) : pool_(threads, threads_on_cores) {}
  virtual ~RankCompute() = default;
  RankCompute(const RankCompute&) = delete;
  RankCompute& operator=(const RankCompute&) = delete;

  /// Returns all compute threads; not while a schedule is played.
  ThreadPool& pool() { return pool_; }
  /// Kernels that may be called from the thread that plays a queue.
  virtual Kernels& kernels(Queue queue) const = 0;
  /// Copies between device and host, as work of a queue's stream. On a CPU it copies whole words of 4 bytes.
  virtual void copy(Queue queue, Stream& stream, void* to, const void* from, std::int64_t bytes) const = 0;

  /// Describes the hardware and libraries that compute.
  virtual Implementation description() const = 0;
  /// Returns the algorithms chosen so far for a GPU's matmuls, as text, for the same run's next part; empty on a CPU.
  virtual std::string gemm_algorithms() const { return {}; }
  /// Returns a remark on the algorithms of the run's earlier part, for the log; may be empty.
  virtual std::string gemm_remark() const { return {}; }

 private:
  ThreadPool pool_;
};

}  // namespace tessera
