#pragma once
// Sleeping and waking on a 32-bit word, between threads or between processes that share memory. std::atomic::wait only
// wakes threads of its own process, hence the system call itself.

#include <atomic>
#include <cstdint>

namespace tessera {

/// Which threads share the word: `process` is cheaper, `machine` works across processes through shared memory.
enum class FutexScope { process, machine };

/// Sleeps while `word` == `expected`, at most `timeout_ns` nanoseconds (0 = no limit). May return early: check again.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::int64_t timeout_ns,
                FutexScope scope);

/// Wakes up to `count` sleepers of `word`.
void futex_wake(const std::atomic<std::uint32_t>& word, int count, FutexScope scope);

/// Tells the core that this is a spin loop.
inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// How a thread waits: spins briefly if cores are free, yields the core a few times, then sleeps. Spinning includes
/// yields too: the system may have put the awaited thread on this very core. One object per wait.
class Backoff {
 public:
  /// `spin`: whether every runnable thread has its own core; otherwise spinning only delays the awaited one.
  explicit Backoff(bool spin) : spins_(spin ? kSpins : 0) {}

  /// Call between two looks at the condition. True once the caller should sleep instead of calling again.
  bool pause();

 private:
  static constexpr int kSpins = 4096;  ///< some 30 to 100 microseconds, about what a sleep and a wake-up cost
  static constexpr int kRound = 128;   ///< spins between two yields of the core
  static constexpr int kYields = 8;
  int spins_;
  int yields_ = kYields;
};

}  // namespace tessera
