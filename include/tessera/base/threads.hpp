#pragma once
// Threads of ours receive no signals: a handler that interrupts a matrix product writes into the product's buffers, and
// only the thread that made the handler has a stack for it (engine/stop.hpp).

#include <signal.h>

#include <functional>
#include <string>
#include <thread>

namespace tessera {

/// While it lives the calling thread receives no signals but those of its own faults (SIGSEGV and the like); signals
/// that come are delivered afterwards. Threads that start meanwhile, a library's too, never receive any.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// Starts a thread that receives no signals; `name` is what the system shows (its first 15 characters). IoError when
/// the system refuses one more.
std::thread start_thread(const std::string& name, std::function<void()> body);

}  // namespace tessera
