#include "comm/nccl/nccl_watchdog.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "comm/nccl/nccl_api.hpp"
#include "tessera/backend/cuda/check.hpp"
#include "tessera/base/log.hpp"

namespace tessera {

NcclWatchdog::NcclWatchdog(RankContext& context, Device& device, double timeout_seconds)
    : context_(context), device_(device), timeout_seconds_(timeout_seconds) {
  for (Mark& mark : marks_) TESSERA_CHECK_CUDA(cudaEventCreateWithFlags(&mark.event, cudaEventDisableTiming));
  thread_ = std::thread([this] { watch(); });
  pthread_setname_np(thread_.native_handle(), "nccl watchdog");
}

NcclWatchdog::~NcclWatchdog() {
  {
    const std::lock_guard lock(lock_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
  for (Mark& mark : marks_) static_cast<void>(cudaEventDestroy(mark.event));
}

void NcclWatchdog::add(ncclComm_t comm, const std::string& name) {
  const std::lock_guard lock(lock_);
  watched_.push_back({comm, name});
}

void NcclWatchdog::remove(ncclComm_t comm) {
  const std::lock_guard lock(lock_);
  std::erase_if(watched_, [&](const Watched& one) { return one.comm == comm; });
}

void NcclWatchdog::follow(cudaStream_t stream, const std::string& what) {
  const std::lock_guard lock(lock_);
  if (count_ == kMarks) return;
  Mark& mark = marks_[(first_ + count_) % kMarks];
  TESSERA_CHECK_CUDA(cudaEventRecord(mark.event, stream));
  mark.issued = Clock::now();
  mark.what = what;
  ++count_;
}

NcclWatchdog::Guard::Guard(NcclWatchdog& watchdog, std::string what) : watchdog_(watchdog) {
  const std::lock_guard lock(watchdog_.lock_);
  watchdog_.guarded_ = std::move(what);
  watchdog_.guarded_since_ = Clock::now();
}

NcclWatchdog::Guard::~Guard() {
  const std::lock_guard lock(watchdog_.lock_);
  watchdog_.guarded_.clear();
}

void NcclWatchdog::watch() {
  device_.enter_thread();
  std::unique_lock lock(lock_);
  while (!stopped_.wait_for(lock, kLookEvery, [this] { return stop_; })) {
    const std::string wrong = look();
    if (!wrong.empty()) end(wrong);
  }
}

std::string NcclWatchdog::look() {
  const NcclApi& nccl = nccl_api();
  for (const Watched& one : watched_) {
    ncclResult_t state = ncclSuccess;
    if (nccl.async_error(one.comm, &state) != ncclSuccess || state == ncclSuccess || state == ncclInProgress) continue;
    const char* const more = nccl.last_error(one.comm);
    return fmt::format("NCCL failed on '{}' ({}): {}", one.name, nccl.error_string(state),
                       more != nullptr && *more != 0 ? more : "no details; NCCL_DEBUG=INFO tells more");
  }
  for (; count_ > 0 && cudaEventQuery(marks_[first_].event) == cudaSuccess; --count_) {
    first_ = (first_ + 1) % kMarks;
    progress_ = Clock::now();
  }
  if (timeout_seconds_ <= 0) return {};
  const auto waits_too_long = [&](Clock::time_point since) {
    return std::chrono::duration<double>(Clock::now() - since).count() > timeout_seconds_;
  };
  if (count_ > 0 && waits_too_long(std::max(marks_[first_].issued, progress_))) {
    return fmt::format("{} did not end within {} s: a rank did not come, or the network fails", marks_[first_].what,
                       timeout_seconds_);
  }
  if (!guarded_.empty() && waits_too_long(guarded_since_)) {
    return fmt::format("{} did not return within {} s: a rank did not come, or the network fails", guarded_,
                       timeout_seconds_);
  }
  return {};
}

/// The first rank that fails speaks; others that see the same end without a word.
void NcclWatchdog::end(const std::string& message) {
  const auto rank = static_cast<int>(context_.rank());
  if (context_.notice().raise({rank, ExitCode::communication, message})) {
    Log(rank, static_cast<int>(context_.size())).error(message);
    static_cast<void>(std::fflush(stderr));
  }
  // Nothing is unwound: threads of this process are inside NCCL or behind it.
  std::_Exit(static_cast<int>(ExitCode::communication));
}

}  // namespace tessera
