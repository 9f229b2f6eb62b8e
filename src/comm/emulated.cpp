// A communicator that emulates a slower network.

#include <chrono>

#include "comm/collective_call.hpp"
#include "tessera/base/threads.hpp"
#include "tessera/comm/make_communicator.hpp"

namespace tessera {

namespace {

class EmulatedCommunicator final : public Communicator {
 public:
  EmulatedCommunicator(std::unique_ptr<Communicator> inner, const Emulation& emulation)
      : inner_(std::move(inner)), emulation_(emulation) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  void all_gather(Stream& stream, void* whole, std::int64_t elements, DType dtype) override {
    slowly(Collective::all_gather, elements, dtype, [&] { inner_->all_gather(stream, whole, elements, dtype); });
  }
  void reduce_scatter(Stream& stream, const void* contribution, DType wire, void* shard, DType shard_dtype,
                      std::int64_t elements) override {
    slowly(Collective::reduce_scatter, elements, wire,
           [&] { inner_->reduce_scatter(stream, contribution, wire, shard, shard_dtype, elements); });
  }
  void all_reduce(Stream& stream, std::int64_t* values, std::int64_t count, Reduction reduction) override {
    slowly(Collective::all_reduce, count, DType::int64, [&] { inner_->all_reduce(stream, values, count, reduction); });
  }
  void broadcast(Stream& stream, void* data, std::int64_t bytes, int root) override {
    slowly(Collective::broadcast, bytes, DType::byte, [&] { inner_->broadcast(stream, data, bytes, root); });
  }
  void exchange(Stream& stream, const void* sent, void* received, std::span<const ExchangeRun> runs,
                DType dtype) override {
    slowly(Collective::exchange, bytes_sent(runs, dtype),
           [&] { inner_->exchange(stream, sent, received, runs, dtype); });
  }
  void barrier(Stream& stream) override {
    const auto end = end_of(0);
    inner_->barrier(stream);
    if (size() > 1) sleep_until(end);
  }
  void set_workspace(std::span<std::byte> scratch) override { inner_->set_workspace(scratch); }
  /// As seen by the caller: the delay is part of the time.
  CommunicationCount count(Collective collective) const override { return counters_.get(collective); }

 private:
  std::chrono::steady_clock::time_point end_of(std::int64_t bytes) const {
    const std::chrono::duration<double> time(emulation_.seconds(bytes));
    return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(time);
  }

  template <class F>
  void slowly(Collective collective, std::int64_t elements, DType dtype, F&& work) {
    slowly(collective, bytes_sent(collective, size(), elements, dtype), std::forward<F>(work));
  }
  template <class F>
  void slowly(Collective collective, std::int64_t bytes, F&& work) {
    const CountedCall counted(counters_, collective, bytes);
    const auto end = end_of(bytes);
    work();
    if (size() > 1) sleep_until(end);  // a group of one has no network
  }

  std::unique_ptr<Communicator> inner_;
  Emulation emulation_;
  CallCounters counters_;
};

}  // namespace

std::unique_ptr<Communicator> make_emulated(std::unique_ptr<Communicator> inner, const Emulation& emulation) {
  if (!emulation.on()) return inner;
  return std::make_unique<EmulatedCommunicator>(std::move(inner), emulation);
}

}  // namespace tessera
