#include "comm/faulty.hpp"

#include <array>
#include <chrono>
#include <thread>

#include "comm/collective_call.hpp"
#include "comm/wait.hpp"
#include "tessera/base/counter_rng.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

class FaultyCommunicator final : public Communicator {
 public:
  FaultyCommunicator(std::unique_ptr<Communicator> inner, const FaultPlan& plan, FailureNotice& notice)
      : inner_(std::move(inner)), plan_(plan), notice_(notice) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  /// Draws four numbers for this call; the second block of numbers gives place and duration.
  void run(Stream& stream, const CollectiveCall& collective) override {
    const std::int64_t call = calls_++;
    const auto chances = draw(2 * call), amounts = draw(2 * call + 1);
    const bool now = plan_.only_call < 0 || call == plan_.only_call;
    if (to_uniform(chances[0]) < plan_.delay) {
      const double part = to_uniform(amounts[0]);
      const auto most = static_cast<double>(plan_.max_delay_microseconds);
      std::this_thread::sleep_for(std::chrono::microseconds(static_cast<std::int64_t>(part * most)));
    }
    if (now && to_uniform(chances[1]) < plan_.kill) {
      throw CommunicationError("rank {} was made to fail at call {} (seed {})", rank(), call, plan_.seed);
    }
    if (now && to_uniform(chances[2]) < plan_.drop) {
      for (PollPause wait(notice_); true;) wait.pause();  // until PeerError
    }
    inner_->run(stream, collective);
    const std::int64_t bytes = result_bytes(collective);
    if (now && bytes > 0 && to_uniform(chances[3]) < plan_.flip) {
      const auto bit =
          ((static_cast<std::uint64_t>(amounts[1]) << 32) | amounts[2]) % (8 * static_cast<std::uint64_t>(bytes));
      static_cast<std::byte*>(collective.to)[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }
  void set_workspace(std::span<std::byte> scratch) override { inner_->set_workspace(scratch); }
  CommunicationCount count(Collective collective) const override { return inner_->count(collective); }

 private:
  std::int64_t result_bytes(const CollectiveCall& call) const {
    switch (call.collective) {
      case Collective::all_gather:
        return size() * call.bytes();
      case Collective::reduce_scatter:
        return call.elements * size_of(call.result);
      case Collective::exchange:
        return 0;
      default:
        return call.bytes();
    }
  }

  std::array<std::uint32_t, 4> draw(std::int64_t number) const {
    return philox(plan_.seed, RandomUse::chaos, static_cast<std::uint32_t>(rank()), static_cast<std::uint64_t>(number));
  }

  std::unique_ptr<Communicator> inner_;
  FaultPlan plan_;
  FailureNotice& notice_;
  std::int64_t calls_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_faulty(std::unique_ptr<Communicator> inner, const FaultPlan& plan,
                                          FailureNotice& notice) {
  return std::make_unique<FaultyCommunicator>(std::move(inner), plan, notice);
}

}  // namespace tessera
