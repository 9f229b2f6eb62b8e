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

}  // namespace tessera
