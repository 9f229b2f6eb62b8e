#pragma once
// A system that starts no more threads: replaces the C library's pthread_create. Include it in one source of a test
// binary.

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <limits>

namespace tessera::test {

inline std::atomic<int>& threads_left() {
  static std::atomic<int> left{std::numeric_limits<int>::max()};
  return left;
}

/// During its lifetime the process may start `threads` more.
class OnlyThreads {
 public:
  explicit OnlyThreads(int threads) { threads_left() = threads; }
  ~OnlyThreads() { threads_left() = std::numeric_limits<int>::max(); }
  OnlyThreads(const OnlyThreads&) = delete;
  OnlyThreads& operator=(const OnlyThreads&) = delete;
};

}  // namespace tessera::test

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                              void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto original = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (tessera::test::threads_left()-- <= 0) return EAGAIN;
  return original(thread, attributes, body, argument);
}
