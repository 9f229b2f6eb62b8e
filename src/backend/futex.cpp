#include "tessera/backend/futex.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace tessera {

namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

long futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

int flags_of(FutexScope scope) { return scope == FutexScope::process ? FUTEX_PRIVATE_FLAG : 0; }

}  // namespace

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::int64_t timeout_ns,
                FutexScope scope) {
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000);
  timeout.tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000);
  futex(word, FUTEX_WAIT | flags_of(scope), expected, timeout_ns > 0 ? &timeout : nullptr);
}

void futex_wake(const std::atomic<std::uint32_t>& word, int count, FutexScope scope) {
  futex(word, FUTEX_WAKE | flags_of(scope), static_cast<std::uint32_t>(count), nullptr);
}

bool Backoff::pause() {
  if (spins_ > 0) {
    if (--spins_ % kRound == 0) {
      sched_yield();
    } else {
      cpu_relax();
    }
    return false;
  }
  if (yields_ > 0) {
    --yields_;
    sched_yield();
    return false;
  }
  return true;
}

}  // namespace tessera
