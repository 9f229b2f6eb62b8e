#pragma once
// Messages over MPI, on the transport's own communicator.

#include <array>

#include "comm/mpi/check.hpp"
#include "tessera/comm/notice.hpp"
#include "tessera/comm/transport.hpp"

namespace tessera {

class MpiTransport final : public Transport {
 public:
  /// Takes the communicator over. `notice`: after a failure the communicator is left to MPI_Finalize.
  MpiTransport(MpiComm comm, FailureNotice& notice);
  ~MpiTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  MessageSlot start_send(int peer, int tag, const void* data, std::int64_t bytes) override;
  MessageSlot start_receive(int peer, int tag, void* data, std::int64_t bytes) override;
  bool finished(MessageSlot slot) override;
  void cancel() override;

 private:
  struct Request {
    MPI_Request handle = MPI_REQUEST_NULL;
    bool used = false, receives = false;
  };
  /// Begins a message by `call(bytes, request)`.
  template <class Start>
  MessageSlot start(std::int64_t bytes, bool receives, Start call);
  [[noreturn]] void end_process();

  MpiComm comm_;
  FailureNotice& notice_;
  int rank_, size_;
  std::array<Request, kSlots> requests_;
};

}  // namespace tessera
