#pragma once
// The one thread that calls HDF5 during a run (the library has one lock, and disks are slow). Tasks wait in a queue,
// rows of metrics before bulk data.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

namespace tessera {

enum class IoPriority : std::uint8_t { rows, bulk };

/// Runs tasks one at a time: within a priority in the order they came; `rows` before waiting `bulk`. Thread-safe. Its
/// signals are blocked, so that handlers run on the program's own threads.
class IoThread {
 public:
  /// Limits waiting tasks to `capacity` per priority; a further post() waits.
  explicit IoThread(std::size_t capacity = 1024);
  /// Runs what is queued, delayed tasks at once, then ends the thread.
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  /// Queues a task. The poster handles its errors: a task that throws ends the process (std::terminate).
  void post(IoPriority priority, std::function<void()> task);
  /// Queues a task among the rows once `delay` is over.
  void post_after(std::chrono::milliseconds delay, std::function<void()> task);

  /// Queues f(), and returns the future of its result or exception.
  template <class F>
  auto start(F&& f, IoPriority priority) {
    // A packaged task is movable only; std::function copies, hence the shared one.
    auto task = std::make_shared<std::packaged_task<std::invoke_result_t<F>()>>(std::forward<F>(f));
    auto result = task->get_future();
    post(priority, [task] { (*task)(); });
    return result;
  }
  /// Runs f() on the thread after the waiting tasks of its priority. Waits and returns its result or rethrows its
  /// exception. Not to be called from a task.
  template <class F>
  auto run(F&& f, IoPriority priority = IoPriority::rows) {
    return start(std::forward<F>(f), priority).get();
  }

 private:
  using Clock = std::chrono::steady_clock;
  void work();
  std::function<void()> next_task(std::unique_lock<std::mutex>& lock);

  std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable task_ready_, room_made_;
  std::deque<std::function<void()>> rows_, bulk_;
  std::multimap<Clock::time_point, std::function<void()>> delayed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tessera
