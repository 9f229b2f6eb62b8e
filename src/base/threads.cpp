#include "tessera/base/threads.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera {

SignalsBlocked::SignalsBlocked() {
  sigset_t others;
  sigfillset(&others);
  // A blocked signal of a fault would end the process before a debugger or a sanitizer can report it.
  for (const int fault : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP}) sigdelset(&others, fault);
  pthread_sigmask(SIG_BLOCK, &others, &before_);
}

SignalsBlocked::~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

namespace {

/// The structure that sched_setattr(2) reads, for which Debian 12 has no header.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes), policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0, deadline = 0, period = 0;  ///< ns
};

}  // namespace

void wake_at_once() {
  // Neither can fail in a way that matters: an older system, or one that forbids it, wakes the thread later.
  prctl(PR_SET_TIMERSLACK, 1000);  // ns
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 || attributes.policy != SCHED_OTHER) return;
  attributes.runtime = 100'000;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void sleep_until(std::chrono::steady_clock::time_point end) {
  wake_at_once();
  std::this_thread::sleep_until(end);
}

namespace {

template <class Thread, class Body>
Thread started(const std::string& name, Body body) {
  const SignalsBlocked inherited;
  try {
    Thread thread(std::move(body));
    pthread_setname_np(thread.native_handle(), name.substr(0, 15).c_str());
    return thread;
  } catch (const std::system_error& error) {
    throw IoError(
        "cannot start the thread '{}' ({}). The limits on threads (ulimit -u, pids.max of the job) and on a process's "
        "memory (ulimit -v) must allow it.",
        name, error.code().message());
  }
}

}  // namespace

std::thread start_thread(const std::string& name, std::function<void()> body) {
  return started<std::thread>(name, std::move(body));
}

std::jthread start_thread(const std::string& name, std::function<void(const std::stop_token&)> body) {
  return started<std::jthread>(name, std::move(body));
}

bool ends_within(const std::stop_token& end, std::chrono::nanoseconds time) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  return std::condition_variable_any().wait_for(lock, end, time, [&] { return end.stop_requested(); });
}

}  // namespace tessera
