#include "comm/mpi/mpi_transport.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <thread>

#include "comm/wait.hpp"
#include "tessera/base/log.hpp"

namespace tessera {

namespace {

/// Half of the time that the world waits for late ranks at their end.
constexpr double kReceiveSeconds = 5;
constexpr double kSendSeconds = 0.1;  ///< a send whose receiver is filling its memory needs no longer

}  // namespace

MpiTransport::MpiTransport(MpiComm comm, FailureNotice& notice)
    : comm_(std::move(comm)), notice_(notice), rank_(comm_.rank()), size_(comm_.size()) {}

MpiTransport::~MpiTransport() {
  cancel();
  if (notice_.is_over()) comm_.abandon();
}

template <class Start>
MessageSlot MpiTransport::start(std::int64_t bytes, bool receives, Start call) {
  TESSERA_ASSERT(bytes <= std::numeric_limits<int>::max(), "a message of {} bytes", bytes);
  const auto free = std::ranges::find(requests_, false, &Request::used);
  if (free == requests_.end()) throw InternalError("more than {} messages under way", kSlots);
  check_mpi(call(static_cast<int>(bytes), &free->handle), receives ? "MPI_Irecv" : "MPI_Isend");
  free->used = true, free->receives = receives;
  return {static_cast<int>(free - requests_.begin())};
}

MessageSlot MpiTransport::start_send(int peer, int tag, const void* data, std::int64_t bytes) {
  return start(bytes, false, [&](int count, MPI_Request* request) {
    return MPI_Isend(data, count, MPI_BYTE, peer, tag, comm_.get(), request);
  });
}

MessageSlot MpiTransport::start_receive(int peer, int tag, void* data, std::int64_t bytes) {
  return start(bytes, true, [&](int count, MPI_Request* request) {
    return MPI_Irecv(data, count, MPI_BYTE, peer, tag, comm_.get(), request);
  });
}

bool MpiTransport::finished(MessageSlot slot) {
  Request& request = requests_[static_cast<std::size_t>(slot.index)];
  TESSERA_ASSERT(request.used, "a message that is not under way");
  int done = 0;
  check_mpi(MPI_Test(&request.handle, &done, MPI_STATUS_IGNORE), "MPI_Test");
  if (done) request.used = false;
  return done != 0;
}

/// Cancels receives without a message. One that is being filled cannot be cancelled; it is waited for, because its
/// memory goes away next. A send cannot be taken back; MPI forgets an unreceived one at MPI_Finalize.
void MpiTransport::cancel() {
  for (Request& request : requests_) {
    if (request.used && request.receives) MPI_Cancel(&request.handle);
  }
  PeerDeadline receives(kReceiveSeconds), sends(kSendSeconds);
  for (Request& request : requests_) {
    if (!request.used) continue;
    while (request.handle != MPI_REQUEST_NULL) {
      int done = 0;
      if (MPI_Test(&request.handle, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done) break;
      if (!request.receives && sends.passed()) break;
      if (receives.passed()) end_process();
      std::this_thread::yield();
    }
    if (request.handle != MPI_REQUEST_NULL) MPI_Request_free(&request.handle);
    request.used = false;
  }
}

/// Ends the process, because the sender died in the middle of a message and MPI would go on writing into memory that is
/// reused by then.
void MpiTransport::end_process() {
  ExitCode code = ExitCode::communication;
  std::string message = "a message stays half received (its sender is gone)";
  if (notice_.raised()) {
    const Failure known = notice_.failure();
    code = known.code, message = fmt::format("rank {} failed: {}", known.rank, known.message);
  }
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Log(rank, size).error(message);
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  std::_Exit(static_cast<int>(code));
}

}  // namespace tessera
