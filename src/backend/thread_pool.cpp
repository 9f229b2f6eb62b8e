#include "tessera/backend/thread_pool.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "backend/float_mode.hpp"
#include "tessera/backend/cores.hpp"
#include "tessera/backend/futex.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/threads.hpp"

namespace tessera {

// A loop is published as a number of unclaimed tasks, and threads claim tasks by compare-and-swap. The loop's
// description is read only after a claim, and it does not change until every claimed task is finished. So a worker that
// wakes late claims a task of the current loop or touches nothing, and the caller never waits for idle workers.

struct ThreadPool::State {
  int threads = 1;
  bool spin = false;
  std::vector<std::thread> workers;

  // Written by the caller before the tasks are published; read only by threads that hold a claimed task.
  void (*body)(void*, std::int64_t, int) = nullptr;
  void* self = nullptr;
  std::int64_t tasks = 0;
  FloatMode float_mode{};

  alignas(64) std::atomic<std::int64_t> unclaimed{0};
  std::atomic<std::uint32_t> published{0};  ///< changes with every loop: the word on which idle workers sleep
  std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};

  alignas(64) std::atomic<std::int64_t> finished{0};
  std::atomic<std::uint32_t> complete{
      0};  ///< 1 once all tasks of the loop are done: the word on which the caller sleeps
  std::atomic<bool> caller_sleeps{false};

  std::mutex failure_lock;
  std::exception_ptr failure;
  std::atomic<bool> failed{false};

  /// Claims a task of the published loop; false when there is none.
  bool claim(std::int64_t& task);
  void work_off(int worker, bool adopt_float_mode);
  void run_task(std::int64_t task, int worker);
  void worker_main(int worker);
  void end_workers();
  void sleep_until_published(std::uint32_t seen);
  void wait_until_complete();
  void publish();
};

bool ThreadPool::State::claim(std::int64_t& task) {
  std::int64_t left = unclaimed.load(std::memory_order_acquire);
  while (left > 0) {
    if (unclaimed.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
      task = tasks - left;
      return true;
    }
  }
  return false;
}

void ThreadPool::State::run_task(std::int64_t task, int worker) {
  try {
    if (!failed.load(std::memory_order_relaxed)) body(self, task, worker);  // after a failure the rest is skipped
  } catch (...) {
    const std::lock_guard lock(failure_lock);
    if (!failure) failure = std::current_exception();
    failed.store(true, std::memory_order_relaxed);
  }
}

void ThreadPool::State::work_off(int worker, bool adopt_float_mode) {
  for (std::int64_t task = 0; claim(task);) {
    const std::int64_t all = tasks;
    if (adopt_float_mode) set_float_mode(float_mode);
    run_task(task, worker);
    if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 == all) {
      complete.store(1);
      if (caller_sleeps.load()) futex_wake(complete, 1, FutexScope::process);
    }
  }
}

void ThreadPool::State::sleep_until_published(std::uint32_t seen) {
  for (Backoff backoff(spin); published.load() == seen;) {
    if (!backoff.pause()) continue;
    sleepers.fetch_add(1);
    if (published.load() == seen) futex_wait(published, seen, 0, FutexScope::process);
    sleepers.fetch_sub(1);
  }
}

void ThreadPool::State::worker_main(int worker) {
  while (true) {
    const std::uint32_t seen = published.load();
    if (stop.load()) return;
    work_off(worker, true);
    sleep_until_published(seen);
  }
}

void ThreadPool::State::end_workers() {
  stop.store(true);
  published.fetch_add(1);
  futex_wake(published, threads, FutexScope::process);
  for (std::thread& worker : workers) worker.join();
}

void ThreadPool::State::publish() {
  finished.store(0);
  complete.store(0);
  unclaimed.store(tasks);
  published.fetch_add(1);
  if (sleepers.load() > 0) {
    futex_wake(published, static_cast<int>(std::min<std::int64_t>(tasks - 1, threads - 1)), FutexScope::process);
  }
}

void ThreadPool::State::wait_until_complete() {
  for (Backoff backoff(spin); complete.load() == 0;) {
    if (!backoff.pause()) continue;
    caller_sleeps.store(true);
    if (complete.load() == 0) futex_wait(complete, 0, 0, FutexScope::process);
    caller_sleeps.store(false);
  }
}

ThreadPool::ThreadPool(int threads, int threads_on_cores) : state_(std::make_unique<State>()) {
  if (threads < 1) throw refuse("run.threads", threads).because("a pool needs threads").use("at least 1");
  state_->threads = threads;
  state_->spin = threads > 1 && std::max(threads, threads_on_cores) <= allowed_cores();
  try {
    for (int worker = 1; worker < threads; ++worker) {
      state_->workers.push_back(start_thread(fmt::format("compute {}", worker),
                                             [state = state_.get(), worker] { state->worker_main(worker); }));
    }
  } catch (const IoError& error) {
    state_->end_workers();
    throw IoError("{} run.threads = {} asks for so many, and fewer may be enough.", error.what(), threads);
  }
}

ThreadPool::~ThreadPool() { state_->end_workers(); }

int ThreadPool::threads() const { return state_->threads; }

void ThreadPool::run(std::int64_t tasks, void (*body)(void*, std::int64_t, int), void* self) {
  if (state_->threads == 1 || tasks <= 1) {
    for (std::int64_t task = 0; task < tasks; ++task) body(self, task, 0);
    return;
  }
  state_->body = body, state_->self = self, state_->tasks = tasks;
  state_->float_mode = float_mode();
  state_->publish();
  state_->work_off(0, false);
  state_->wait_until_complete();
  if (state_->failed.load()) {
    state_->failed.store(false);
    std::rethrow_exception(std::exchange(state_->failure, nullptr));
  }
}

}  // namespace tessera
