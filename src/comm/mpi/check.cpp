#include "comm/mpi/check.hpp"

#include <string>

#include "tessera/base/error.hpp"

namespace tessera {

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw CommunicationError("{} failed ({}). See the MPI library's own messages.", call,
                           std::string(text, static_cast<std::size_t>(length)));
}

int MpiComm::rank() const {
  int rank = 0;
  check_mpi(MPI_Comm_rank(get(), &rank), "MPI_Comm_rank");
  return rank;
}

int MpiComm::size() const {
  int size = 0;
  check_mpi(MPI_Comm_size(get(), &size), "MPI_Comm_size");
  return size;
}

MpiComm::MpiComm(MPI_Comm comm) : comm_(comm) {
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

MpiComm duplicate(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
  return MpiComm(copy);
}

}  // namespace tessera
