#include "cuda/comm/nccl/nccl_watchdog.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "cuda/comm/nccl/nccl_api.hpp"
#include "tessera/base/log.hpp"
#include "tessera/base/threads.hpp"
#include "tessera/cuda/check.hpp"

namespace tessera {

NcclWatchdog::NcclWatchdog(RankContext& context, Device& device, double timeout_seconds)
    : context_(context), device_(device), timeout_seconds_(timeout_seconds), time_(timeout_seconds) {
  try {
    asker_ = start_thread("nccl watchdog", [this] { watch(&NcclWatchdog::ask); });
    timer_ = start_thread("nccl deadline", [this] { watch(&NcclWatchdog::keep_time); });
  } catch (...) {
    end_threads();
    throw;
  }
}

NcclWatchdog::~NcclWatchdog() { end_threads(); }

/// Keeps the time until the last question was answered.
void NcclWatchdog::end_threads() {
  const auto finish = [this](bool& stop, std::thread& thread) {
    {
      const std::lock_guard lock(lock_);
      stop = true;
    }
    stopped_.notify_all();
    if (thread.joinable()) thread.join();
  };
  finish(stop_asking_, asker_);
  finish(stop_time_, timer_);
}

void NcclWatchdog::add(ncclComm_t comm, const std::string& name) {
  const std::lock_guard lock(lock_);
  watched_.push_back({comm, name});
}

/// Removes a communicator: from here on it is not queried.
void NcclWatchdog::remove(ncclComm_t comm) {
  const std::lock_guard asking(asking_);
  const std::lock_guard lock(lock_);
  std::erase_if(watched_, [&](const Watched& one) { return one.comm == comm; });
}

void NcclWatchdog::look_now() {
  std::string wrong;
  {
    const std::lock_guard asking(asking_);
    wrong = asynchronous_error();
  }
  if (!wrong.empty()) end(CommunicationError("{}", wrong));
}

/// Only this thread uses the slot behind the last mark, because the asker changes the ring meanwhile only at its front.
/// In a full ring the new mark replaces the last one, because a hanging collective must always be watched.
void NcclWatchdog::watch_until_done(cudaStream_t stream, const std::string& what) {
  Mark* mark = nullptr;
  {
    const std::lock_guard lock(lock_);
    if (count_ == kMarks) --count_;
    mark = &marks_[(first_ + count_) % kMarks];
  }
  TESSERA_CHECK_CUDA(cudaEventRecord(mark->event.native(), stream));
  const std::lock_guard lock(lock_);
  mark->issued = now();
  mark->what = what;
  ++count_;
}

NcclWatchdog::Guard::Guard(NcclWatchdog& watchdog, std::string what) : watchdog_(watchdog) {
  const std::lock_guard lock(watchdog_.lock_);
  watchdog_.guarded_ = std::move(what);
  watchdog_.guarded_since_ = watchdog_.now();
}

NcclWatchdog::Guard::~Guard() {
  const std::lock_guard lock(watchdog_.lock_);
  watchdog_.guarded_.clear();
}

template <class Look>
void NcclWatchdog::repeat(bool& stop, Look look) {
  for (std::unique_lock lock(lock_); !stopped_.wait_for(lock, kLookEvery, [&] { return stop; });) look(lock);
}

void NcclWatchdog::watch(void (NcclWatchdog::*loop)()) noexcept {
  try {
    (this->*loop)();
  } catch (...) {
    end(CommunicationError("nothing watches NCCL any more: {}", caught_error().what));
  }
}

void NcclWatchdog::ask() {
  device_.enter_thread();
  repeat(stop_asking_, [this](std::unique_lock<std::mutex>& lock) {
    asks_ = true;
    asked_ = now();
    lock.unlock();
    const bool failed = context_.notice().raised();
    std::string wrong;
    {
      const std::lock_guard asking(asking_);
      wrong = asynchronous_error();
      if (wrong.empty()) wrong = follow_progress();
    }
    lock.lock();
    asks_ = false;
    if (failed && !failure_seen_) failure_seen_ = now();
    if (!wrong.empty()) end(CommunicationError("{}", wrong));
  });
}

void NcclWatchdog::keep_time() {
  repeat(stop_time_, [this](std::unique_lock<std::mutex>&) {
    if (is_left_behind()) end_behind(context_.notice().failure());
    const std::string wrong = timeout_seconds_ > 0 ? overdue() : std::string();
    if (wrong.empty()) return;
    if (is_unanswered()) end(CommunicationError("{}", wrong));
    end(TimeoutError("{}", wrong));
  });
}

bool NcclWatchdog::is_left_behind() {
  if (!failure_seen_ || (count_ == 0 && guarded_.empty())) return false;
  const double least = timeout_seconds_ > 0 ? timeout_seconds_ * kPatiencePart : kPatience;
  const double patience = std::max(least, 2 * longest_);
  const double since = count_ > 0 ? std::max(marks_[first_].issued, progress_) : guarded_since_;
  return now() - std::max(*failure_seen_, since) > patience;
}

std::string NcclWatchdog::asynchronous_error() {
  const NcclApi& nccl = nccl_api();
  std::vector<Watched> all;
  {
    const std::lock_guard lock(lock_);
    all = watched_;
  }
  for (const Watched& one : all) {
    ncclResult_t state = ncclSuccess;
    if (nccl.async_error(one.comm, &state) != ncclSuccess || state == ncclSuccess || state == ncclInProgress) continue;
    const char* const more = nccl.last_error(one.comm);
    return fmt::format("NCCL failed on '{}' ({}): {}", one.name, nccl.error_string(state),
                       more != nullptr && *more != 0 ? more : "no details; NCCL_DEBUG=INFO tells more");
  }
  return {};
}

std::string NcclWatchdog::follow_progress() {
  while (true) {
    cudaEvent_t first = nullptr;
    {
      const std::lock_guard lock(lock_);
      if (count_ == 0) return {};
      first = marks_[first_].event.native();
    }
    const cudaError_t state = cudaEventQuery(first);
    if (state == cudaErrorNotReady) return {};
    const std::lock_guard lock(lock_);
    if (state != cudaSuccess) {
      return fmt::format("the GPU failed before {} ended: {}", marks_[first_].what, cudaGetErrorString(state));
    }
    const double ended = now();
    longest_ = std::max(longest_, ended - std::max(marks_[first_].issued, progress_));
    first_ = (first_ + 1) % kMarks;
    --count_;
    progress_ = ended;
  }
}

std::string NcclWatchdog::overdue() {
  const auto waits_too_long = [&](double since) { return now() - since > timeout_seconds_; };
  if (count_ > 0 && waits_too_long(std::max(marks_[first_].issued, progress_))) {
    return fmt::format("{} did not end within {} s: {}", marks_[first_].what, timeout_seconds_,
                       is_unanswered() ? "the driver of the GPU does not answer, it is stuck or the GPU is lost"
                                       : "a rank did not come, or the network fails");
  }
  if (!guarded_.empty() && waits_too_long(guarded_since_)) {
    return fmt::format("{} did not return within {} s: a rank did not come, or the network fails", guarded_,
                       timeout_seconds_);
  }
  if (asks_ && waits_too_long(asked_)) {
    return fmt::format("the driver of the GPU did not answer within {} s: it is stuck, or the GPU is lost",
                       timeout_seconds_);
  }
  return {};
}

/// Ends the process behind a failure that is known. If it is this rank's own, its main thread is stuck and says
/// nothing.
void NcclWatchdog::end_behind(const Failure& failure) {
  if (failure.rank == context_.rank()) {
    Log(static_cast<int>(failure.rank), static_cast<int>(context_.size())).error(failure.message);
    static_cast<void>(std::fflush(stderr));
  } else {
    std::this_thread::sleep_for(kReporting);
  }
  std::_Exit(static_cast<int>(failure.code));
}

/// Ends the process. The first rank that fails reports it; others that see the same end silently.
void NcclWatchdog::end(const CommunicationError& error) {
  const auto rank = static_cast<int>(context_.rank());
  if (context_.notice().raise({rank, error.code(), error.what()})) {
    context_.notice().say_last_words(error);
    Log(rank, static_cast<int>(context_.size())).error(error.what());
    static_cast<void>(std::fflush(stderr));
  } else {
    std::this_thread::sleep_for(kReporting);
  }
  // Nothing is unwound: threads of this process are inside NCCL or behind it.
  std::_Exit(static_cast<int>(ExitCode::communication));
}

}  // namespace tessera
