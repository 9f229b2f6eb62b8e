#pragma once
// MPI's return codes as exceptions, and its communicators as handles.

#include <mpi.h>

#include "tessera/base/unique_handle.hpp"

namespace tessera {

/// Throws CommunicationError with MPI's own text unless `result` is MPI_SUCCESS. `call` is the function's name.
void check_mpi(int result, const char* call);

/// Owns a communicator. Not freed once `abandon` was called (peers are gone, and MPI may ask them).
class MpiComm {
 public:
  MpiComm() = default;
  /// Owns `comm`, whose errors are return codes from now on. Throws CommunicationError.
  explicit MpiComm(MPI_Comm comm);
  MPI_Comm get() const { return comm_.get(); }
  void abandon() { comm_.release(); }
  void release() { comm_.reset(); }
  int rank() const;
  int size() const;

 private:
  struct Free {
    static MPI_Comm none() { return MPI_COMM_NULL; }
    void operator()(MPI_Comm comm) const { MPI_Comm_free(&comm); }
  };
  UniqueHandle<MPI_Comm, Free> comm_;
};

/// Copies `comm`, with errors as return codes. Collective.
MpiComm duplicate(MPI_Comm comm);

}  // namespace tessera
