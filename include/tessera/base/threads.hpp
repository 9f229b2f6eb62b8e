#pragma once
// Tessera's threads receive no signals. A handler that interrupts a matmul writes into its buffers. Only the thread
// that installed the handler has a stack for it (training/stop.hpp).

#include <signal.h>

#include <functional>
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

/// Has the system run the calling thread as soon as it wakes, though others compute on its core: for at most 0.1 ms at
/// a time, and without the 50 us by which timers may be late. For threads that sleep most of the time; a thread that
/// computed would be interrupted more often. Linux before 6.12 ignores the first.
void wake_at_once();

}  // namespace tessera
