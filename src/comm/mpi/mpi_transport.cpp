#include "comm/mpi/mpi_transport.hpp"

#include <limits>

namespace tessera {

MpiTransport::MpiTransport(MpiComm comm, FailureNotice& notice)
    : comm_(std::move(comm)), notice_(notice), rank_(comm_.rank()), size_(comm_.size()) {}

MpiTransport::~MpiTransport() {
  cancel();
  if (notice_.raised()) comm_.abandon();
}

int MpiTransport::free_slot() const {
  for (int slot = 0; slot < kSlots; ++slot) {
    if (!requests_[static_cast<std::size_t>(slot)].used) return slot;
  }
  throw InternalError("more than {} messages under way", kSlots);
}

MessageSlot MpiTransport::start_send(int peer, int tag, const void* data, std::int64_t bytes) {
  TESSERA_ASSERT(bytes <= std::numeric_limits<int>::max(), "a message of {} bytes", bytes);
  const int slot = free_slot();
  Request& request = requests_[static_cast<std::size_t>(slot)];
  check_mpi(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_.get(), &request.handle), "MPI_Isend");
  request.used = true, request.receives = false;
  return {slot};
}

MessageSlot MpiTransport::start_receive(int peer, int tag, void* data, std::int64_t bytes) {
  TESSERA_ASSERT(bytes <= std::numeric_limits<int>::max(), "a message of {} bytes", bytes);
  const int slot = free_slot();
  Request& request = requests_[static_cast<std::size_t>(slot)];
  check_mpi(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_.get(), &request.handle), "MPI_Irecv");
  request.used = true, request.receives = true;
  return {slot};
}

bool MpiTransport::finished(MessageSlot slot) {
  Request& request = requests_[static_cast<std::size_t>(slot.index)];
  TESSERA_ASSERT(request.used, "a message that is not under way");
  int done = 0;
  check_mpi(MPI_Test(&request.handle, &done, MPI_STATUS_IGNORE), "MPI_Test");
  if (done) request.used = false;
  return done != 0;
}

/// A receive that nothing came for is cancelled. A send cannot be taken back: MPI forgets it at MPI_Finalize.
void MpiTransport::cancel() {
  for (Request& request : requests_) {
    if (!request.used) continue;
    if (request.receives) MPI_Cancel(&request.handle);
    if (request.handle != MPI_REQUEST_NULL) MPI_Request_free(&request.handle);
    request.used = false;
  }
}

}  // namespace tessera
