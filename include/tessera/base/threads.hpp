#pragma once
// Tessera's threads receive no signals. A handler that interrupts a matmul writes into its buffers. Only the thread
// that installed the handler has a stack for it (training/stop.hpp).

#include <signal.h>

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

namespace tessera {

/// While it lives, the calling thread receives only the signals of its own faults (SIGSEGV and the like). Other signals
/// are delivered afterwards. Threads that are started meanwhile, also by libraries, never receive any.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// Starts a thread that receives no signals. `name` is shown by the system (its first 15 characters). IoError when the
/// system refuses another thread.
std::thread start_thread(const std::string& name, std::function<void()> body);
/// The same for a thread that its owner asks to end, and joins, when it goes.
std::jthread start_thread(const std::string& name, std::function<void(const std::stop_token&)> body);

/// Waits for a while, or until a thread is asked to end. Returns whether it was.
bool ends_within(const std::stop_token& end, std::chrono::nanoseconds time);

/// From now on the system runs the calling thread as soon as it wakes, though others compute on its core, for 0.1 ms at
/// a time, and its timers are not late by the usual 50 us. For a thread that sleeps most of the time: one that spins or
/// computes would interrupt others, and be interrupted, more often. Linux before 6.12 ignores the first.
void wake_at_once();

/// Sleeps until then, after wake_at_once().
void sleep_until(std::chrono::steady_clock::time_point end);

}  // namespace tessera
