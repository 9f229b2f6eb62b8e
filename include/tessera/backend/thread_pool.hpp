#pragma once
// The CPU's compute threads. OpenMP is not used, because its teams compete with communication threads for cores, and a
// matrix library's own threading changes bits with the thread count. Here the tasks of a loop depend on shapes only,
// and threads only pick them up.

#include <cstdint>
#include <memory>
#include <type_traits>

namespace tessera {

class ThreadPool {
 public:
  /// `threads` >= 1 in all, the caller included: threads - 1 workers are started. `threads_on_cores`: all threads that
  /// compete for this process's cores, those of other ranks too (0 = this pool's only). Waiting threads spin briefly,
  /// but only if each has its own core.
  explicit ThreadPool(int threads, int threads_on_cores = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  /// Calls body(task, worker) for task = 0 .. tasks-1 on the pool's threads and returns when all are done. worker is in
  /// [0, threads). One caller at a time; not reentrant. The first exception is rethrown to the caller.
  template <class F>
  void parallel_for(std::int64_t tasks, F&& body) {
    run(
        tasks,
        [](void* f, std::int64_t task, int worker) { (*static_cast<std::remove_reference_t<F>*>(f))(task, worker); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  void run(std::int64_t tasks, void (*body)(void*, std::int64_t, int), void* self);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
