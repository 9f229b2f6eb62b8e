#pragma once
// The start and the end of MPI, and its effects on the process meanwhile.

#include <signal.h>

#include <array>

#include "comm/mpi/check.hpp"
#include "tessera/base/threads.hpp"
#include "tessera/comm/world.hpp"

namespace tessera {

/// Restores the previous handlers of fault signals, as a rule none. Open MPI handles them to print a trace, and hangs
/// in that after the heap was damaged.
class FaultHandlers {
 public:
  FaultHandlers() {
    for (std::size_t i = 0; i < kFaults.size(); ++i) ::sigaction(kFaults[i], nullptr, &before_[i]);
  }
  ~FaultHandlers() {
    for (std::size_t i = 0; i < kFaults.size(); ++i) ::sigaction(kFaults[i], &before_[i], nullptr);
  }
  FaultHandlers(const FaultHandlers&) = delete;
  FaultHandlers& operator=(const FaultHandlers&) = delete;

 private:
  static constexpr std::array kFaults{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
  std::array<struct sigaction, kFaults.size()> before_;
};

/// MPI between its start and its end.
class MpiLife {
 public:
  MpiLife(int* argc, char*** argv) {
    int provided = MPI_THREAD_SINGLE;
    const FaultHandlers faults;
    const SignalsBlocked threads_of_mpi;
    if (MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) {
      throw CommunicationError("MPI_Init_thread failed. See the MPI library's own messages.");
    }
    check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    if (provided < MPI_THREAD_MULTIPLE) {
      MPI_Finalize();
      throw CommunicationError("MPI does not give MPI_THREAD_MULTIPLE (level {} of {}). {} must be built with threads.",
                               provided, MPI_THREAD_MULTIPLE, mpi_version());
    }
  }
  ~MpiLife() { MPI_Finalize(); }
  MpiLife(const MpiLife&) = delete;
  MpiLife& operator=(const MpiLife&) = delete;
};

}  // namespace tessera
