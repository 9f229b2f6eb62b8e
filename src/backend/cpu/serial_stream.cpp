// The stream that runs its work on the calling thread: the reference player's.

#include <chrono>
#include <exception>
#include <utility>

#include "backend/cpu/host_event.hpp"

namespace tessera {

namespace {

class SerialStream final : public Stream {
 public:
  void submit(Task task) override {
    if (failure_) return;
    try {
      task.run(task.self, task.argument, *this);
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  void record(Event& event) override {
    HostEvent& mine = host_event(event);
    mine.reach(mine.start_generation(this), failure_);
  }

  void wait(Event& event) override {
    if (failure_) return;
    const auto start = std::chrono::steady_clock::now();
    try {
      event.synchronize();
    } catch (...) {
      failure_ = std::current_exception();
    }
    waited_ += std::chrono::steady_clock::now() - start;
  }

  void synchronize() override {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  std::int64_t waited_ns() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(waited_).count();
  }

 private:
  std::exception_ptr failure_;
  std::chrono::steady_clock::duration waited_{};
};

}  // namespace

std::unique_ptr<Stream> make_serial_stream(const std::string&) { return std::make_unique<SerialStream>(); }

}  // namespace tessera
