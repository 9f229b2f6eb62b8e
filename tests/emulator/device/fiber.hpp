#pragma once
// A thread of the emulated GPU: a function with a stack of its own, which runs until it has to wait for others.

#include <cstddef>

namespace emulator {

/// One stack and the point at which its function was left. All fibers of a pool live on one operating-system thread.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Makes the next resume() call entry(argument) from the start. `entry` must end in leave() and never return.
  void prepare(void (*entry)(void*), void* argument);
  /// Runs the fiber until it calls leave(). Called outside of any fiber.
  void resume();
  /// Back to where resume() was called. Called inside the fiber.
  void leave();

 private:
  static constexpr std::size_t kStackBytes = std::size_t{256} << 10;
  static void start();

  std::byte* stack_ = nullptr;  ///< a guard page, then kStackBytes
  void* fiber_place_ = nullptr;
  void* caller_place_ = nullptr;
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
  // For AddressSanitizer, which has to know on which stack it is.
  void* fiber_fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_stack_bytes_ = 0;
};

}  // namespace emulator
