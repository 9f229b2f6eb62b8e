#include "tessera/base/threads.hpp"

#include <pthread.h>

#include <system_error>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera {

SignalsBlocked::SignalsBlocked() {
  sigset_t others;
  sigfillset(&others);
  // A blocked signal of a fault would end the process before a debugger or a sanitizer can report it.
  for (const int fault : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP}) sigdelset(&others, fault);
  pthread_sigmask(SIG_BLOCK, &others, &before_);
}

SignalsBlocked::~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::thread start_thread(const std::string& name, std::function<void()> body) {
  const SignalsBlocked inherited;
  try {
    std::thread thread(std::move(body));
    pthread_setname_np(thread.native_handle(), name.substr(0, 15).c_str());
    return thread;
  } catch (const std::system_error& error) {
    throw IoError(
        "cannot start the thread '{}' ({}). The limits on threads (ulimit -u, pids.max of the job) must allow it.",
        name, error.code().message());
  }
}

}  // namespace tessera
