// A communicator that emulates a slower network.

#include <chrono>

#include "comm/collective_call.hpp"
#include "tessera/base/threads.hpp"
#include "tessera/comm/make_communicator.hpp"

namespace tessera {

namespace {

class EmulatedCommunicator final : public CountingCommunicator {
 public:
  EmulatedCommunicator(std::unique_ptr<Communicator> inner, const Emulation& emulation)
      : inner_(std::move(inner)), emulation_(emulation) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  /// Counts what the caller sees: the delay is part of the time.
  void run(Stream& stream, const CollectiveCall& call) override {
    const auto start = std::chrono::steady_clock::now();
    const std::chrono::duration<double> time(emulation_.seconds(call.bytes_sent(size())));
    inner_->run(stream, call);
    if (size() > 1)  // a group of one has no network
      sleep_until(start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(time));
    add(call, std::chrono::steady_clock::now() - start);
  }
  void set_workspace(std::span<std::byte> scratch) override { inner_->set_workspace(scratch); }

 private:
  std::unique_ptr<Communicator> inner_;
  Emulation emulation_;
};

}  // namespace

std::unique_ptr<Communicator> make_emulated(std::unique_ptr<Communicator> inner, const Emulation& emulation) {
  if (!emulation.on()) return inner;
  return std::make_unique<EmulatedCommunicator>(std::move(inner), emulation);
}

}  // namespace tessera
