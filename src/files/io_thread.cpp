#include "tessera/files/io_thread.hpp"

#include "tessera/base/threads.hpp"

namespace tessera {

IoThread::IoThread(std::size_t capacity) : capacity_(capacity), thread_(start_thread("files", [this] { work(); })) {}

IoThread::~IoThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  task_ready_.notify_all();
  thread_.join();
}

void IoThread::post(IoPriority priority, std::function<void()> task) {
  {
    std::unique_lock lock(mutex_);
    auto& queue = priority == IoPriority::rows ? rows_ : bulk_;
    room_made_.wait(lock, [&] { return queue.size() < capacity_; });
    queue.push_back(std::move(task));
  }
  task_ready_.notify_one();
}

void IoThread::post_after(std::chrono::milliseconds delay, std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    delayed_.emplace(Clock::now() + delay, std::move(task));
  }
  task_ready_.notify_one();
}

std::function<void()> IoThread::next_task(std::unique_lock<std::mutex>& lock) {
  const auto take = [this](auto& queue) {
    auto task = std::move(queue.front());
    queue.pop_front();
    room_made_.notify_all();
    return task;
  };
  for (;;) {
    if (!delayed_.empty() && (stopping_ || delayed_.begin()->first <= Clock::now())) {
      auto task = std::move(delayed_.begin()->second);
      delayed_.erase(delayed_.begin());
      return task;
    }
    if (!rows_.empty()) return take(rows_);
    if (!bulk_.empty()) return take(bulk_);
    if (stopping_) return nullptr;
    if (delayed_.empty()) {
      task_ready_.wait(lock);
    } else {
      task_ready_.wait_until(lock, delayed_.begin()->first);
    }
  }
}

void IoThread::work() {
  std::unique_lock lock(mutex_);
  while (auto task = next_task(lock)) {
    lock.unlock();
    task();
    task = nullptr;  // its captures are released outside the lock
    lock.lock();
  }
}

}  // namespace tessera
