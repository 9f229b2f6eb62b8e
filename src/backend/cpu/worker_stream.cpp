// A stream with its own thread: a bounded ring of entries, filled by one thread and emptied by the worker.

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "backend/cpu/host_event.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/threads.hpp"

namespace tessera {

namespace {

/// The worker's next action: run a task, reach a generation of an event, or wait for one.
struct Entry {
  enum class Kind { task, reach, wait } kind = Kind::task;
  Task task;
  HostEvent* event = nullptr;
  std::int64_t generation = 0;
};

class WorkerStream final : public Stream {
 public:
  WorkerStream(const std::string& name, std::int64_t capacity)
      : ring_(static_cast<std::size_t>(capacity)), worker_(start_thread(name, [this] { work(); })) {}

  /// Finishes what was submitted, then ends the thread.
  ~WorkerStream() override {
    {
      const std::lock_guard lock(lock_);
      stop_ = true;
    }
    filled_.notify_one();
    worker_.join();
  }

  void submit(Task task) override { push({Entry::Kind::task, task, nullptr, 0}); }

  void record(Event& event) override {
    HostEvent& mine = host_event(event);
    push({Entry::Kind::reach, {}, &mine, mine.start_generation(this)});
  }

  void wait(Event& event) override {
    HostEvent& mine = host_event(event);
    push({Entry::Kind::wait, {}, &mine, mine.recorded_generation()});
  }

  void synchronize() override {
    std::unique_lock lock(lock_);
    drained_.wait(lock, [this] { return pushed_ == done_; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  std::int64_t waited_ns() const override { return waited_ns_.load(std::memory_order_relaxed); }

 private:
  Entry& slot(std::int64_t number) { return ring_[static_cast<std::size_t>(number) % ring_.size()]; }

  void push(const Entry& entry) {
    std::unique_lock lock(lock_);
    drained_.wait(lock, [this] { return pushed_ - done_ < static_cast<std::int64_t>(ring_.size()); });
    slot(pushed_++) = entry;
    lock.unlock();
    filled_.notify_one();
  }

  void work() {
    std::unique_lock lock(lock_);
    while (true) {
      filled_.wait(lock, [this] { return stop_ || done_ < pushed_; });
      if (done_ == pushed_) return;
      const Entry entry = slot(done_);
      const std::exception_ptr earlier = failure_;
      lock.unlock();
      const std::exception_ptr failure = perform(entry, earlier);
      lock.lock();
      if (failure) failure_ = failure;
      ++done_;
      drained_.notify_all();
    }
  }

  /// Runs one entry and returns its exception; after an earlier failure only events are signalled.
  std::exception_ptr perform(const Entry& entry, const std::exception_ptr& earlier) {
    try {
      switch (entry.kind) {
        case Entry::Kind::task:
          if (!earlier) entry.task.run(entry.task.self, entry.task.argument, *this);
          break;
        case Entry::Kind::reach:
          entry.event->reach(entry.generation, earlier);
          break;
        case Entry::Kind::wait:
          if (!earlier) wait_counted(entry);
          break;
      }
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  void wait_counted(const Entry& entry) {
    const auto start = std::chrono::steady_clock::now();
    const auto add_time = [&] {
      const auto time = std::chrono::steady_clock::now() - start;
      waited_ns_.fetch_add(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
    };
    try {
      entry.event->wait_for(entry.generation);
    } catch (...) {
      add_time();
      throw;
    }
    add_time();
  }

  std::mutex lock_;
  std::condition_variable filled_, drained_;
  std::vector<Entry> ring_;
  std::int64_t pushed_ = 0, done_ = 0;  ///< entries so far; an entry is done after its work, so its slot is safe
  bool stop_ = false;
  std::exception_ptr failure_;
  std::atomic<std::int64_t> waited_ns_{0};
  std::thread worker_;  ///< last: it starts when all the above exists
};

}  // namespace

std::unique_ptr<Stream> make_host_stream(const std::string& name, std::int64_t capacity) {
  TESSERA_ASSERT(capacity >= 1, "a stream's queue needs room for an entry, not {}", capacity);
  return std::make_unique<WorkerStream>(name, capacity);
}

}  // namespace tessera
