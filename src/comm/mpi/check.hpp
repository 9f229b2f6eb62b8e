#pragma once
// MPI's return codes as exceptions, and its communicators as handles.

#include <mpi.h>

#include <utility>

#include "tessera/base/error.hpp"

namespace tessera {

/// Throws CommunicationError with MPI's own text unless `result` is MPI_SUCCESS. `call` is the function's name.
void check_mpi(int result, const char* call);

/// Owns a communicator. Not freed once `abandon` was called (peers are gone, and MPI may ask them).
class MpiComm {
 public:
  MpiComm() = default;
  explicit MpiComm(MPI_Comm comm) : comm_(comm) {}
  ~MpiComm() { release(); }
  MpiComm(MpiComm&& other) noexcept : comm_(other.comm_) { other.comm_ = MPI_COMM_NULL; }
  MpiComm& operator=(MpiComm&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }
  MPI_Comm get() const { return comm_; }
  void abandon() { comm_ = MPI_COMM_NULL; }
  void release();
  int rank() const;
  int size() const;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// Copies `comm`, with errors as return codes. Collective.
MpiComm duplicate(MPI_Comm comm);

}  // namespace tessera
