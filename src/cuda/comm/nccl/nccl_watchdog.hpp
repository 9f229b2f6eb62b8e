#pragma once
// Watches NCCL for errors and time-outs. A rank blocked in NCCL, or in a stream behind it, cannot be unblocked, so the
// watchdog ends the process with exit code 5 and one line.
//
// One thread asks NCCL and CUDA, and may get stuck in a driver that no longer answers. Another keeps the time. It calls
// neither, and waits for no lock that is held during such a call, so it ends the process whatever the driver does.

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cuda/backend/cuda_stream.hpp"
#include "cuda/comm/nccl/nccl_abi.hpp"
#include "tessera/base/waited_time.hpp"
#include "tessera/comm/rank_context.hpp"

namespace tessera {

class NcclWatchdog {
 public:
  /// `timeout_seconds`: how long a collective, or a graph of them, may wait without any of this rank's ending; 0 = no
  /// limit.
  NcclWatchdog(RankContext& context, Device& device, double timeout_seconds);
  ~NcclWatchdog();
  NcclWatchdog(const NcclWatchdog&) = delete;
  NcclWatchdog& operator=(const NcclWatchdog&) = delete;

  void add(ncclComm_t comm, const std::string& name);
  void remove(ncclComm_t comm);

  /// Call it after a failed call: ends the process now if NCCL has reported an error before. Unwinding would wait for
  /// work on the GPU that never ends.
  void look_now();

  /// Watches the work that `stream` has so far, "all_gather of 640 bf16 a rank on 'world/gather'". Not while the stream
  /// is captured. While many are under way some are not watched, but the last one always is.
  void watch_until_done(cudaStream_t stream, const std::string& what);

  /// During its lifetime the calling thread may be stuck in a call of NCCL: the process ends after the time-out.
  class Guard {
   public:
    Guard(NcclWatchdog& watchdog, std::string what);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    NcclWatchdog& watchdog_;
  };

 private:
  struct Watched {
    ncclComm_t comm;
    std::string name;
  };
  struct Mark {
    CudaEvent event{EventUse::order};
    double issued = 0;
    std::string what;
  };
  /// Loops every kLookEvery, until the watchdog ends; holds `lock` except while it waits.
  template <class Look>
  void repeat(bool& stop, Look look);
  /// Runs a thread. If its loop fails, that ends the process with one line, too.
  void watch(void (NcclWatchdog::*loop)()) noexcept;
  void ask();
  void keep_time();
  void end_threads();
  /// Returns NCCL's own error report; empty when there is none. Calls NCCL.
  std::string asynchronous_error();
  /// Removes ended collectives from the ring; returns an error of the GPU, empty when there is none. Calls CUDA.
  std::string follow_progress();
  /// Returns the overdue collective; empty when there is none. With lock_ held.
  std::string overdue();
  /// Returns whether a rank failed, and NCCL has ended nothing for so long since then that it waits for that rank. A
  /// failure outside of collectives, such as a checkpoint's, lets all ranks go on to the end of their step. With lock_
  /// held.
  bool is_left_behind();
  [[noreturn]] void end_behind(const Failure& failure);
  [[noreturn]] void end(const CommunicationError& error);
  /// Returns whether the driver owes an answer for half the time-out. With lock_ held.
  bool is_unanswered() { return asks_ && now() - asked_ > timeout_seconds_ / 2; }
  /// Returns the time in seconds; it stands still while the process is stopped. With lock_ held.
  double now() { return time_.look(); }

  static constexpr std::size_t kMarks = 32;
  static constexpr auto kLookEvery = std::chrono::milliseconds(50);
  /// Time for the failed rank to end the job: a part of the time-out, and seconds without one. It is at least twice
  /// what a collective has taken, because a graph's collectives end as one.
  static constexpr double kPatiencePart = 1.0 / 30, kPatience = 10;
  /// mpiexec ends all ranks once the first is gone, also the one that reports.
  static constexpr auto kReporting = std::chrono::milliseconds(200);

  RankContext& context_;
  Device& device_;
  double timeout_seconds_;
  std::mutex asking_;  ///< held during questions to NCCL and CUDA; taken before lock_
  std::mutex lock_;    ///< guards everything below; never held during a call of NCCL or CUDA
  std::condition_variable stopped_;
  bool stop_asking_ = false, stop_time_ = false;
  std::vector<Watched> watched_;
  std::array<Mark, kMarks> marks_;  ///< a ring: [first_, first_ + count_)
  std::size_t first_ = 0, count_ = 0;
  WaitedTime time_;      ///< the keeper of the time looks every kLookEvery
  double progress_ = 0;  ///< when a watched collective last ended
  double longest_ = 0;   ///< seconds that one has taken, or a graph of many
  std::string guarded_;  ///< the call that a thread is in, empty when none
  double guarded_since_ = 0;
  bool asks_ = false;  ///< a question is under way, since
  double asked_ = 0;
  std::optional<double> failure_seen_;  ///< of any rank
  std::thread asker_, timer_;
};

}  // namespace tessera
