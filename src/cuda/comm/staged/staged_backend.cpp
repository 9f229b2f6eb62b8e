#include "cuda/comm/staged/staged_backend.hpp"

#include <algorithm>

#include "comm/collective_call.hpp"
#include "tessera/base/format.hpp"
#include "tessera/comm/make_communicator.hpp"

namespace tessera {

namespace {

/// Collectives between GPUs through the hosts' memory: the same sums, to the bit, as ranks on CPUs have.
class StagedCommunicator final : public Communicator {
 public:
  /// `inner` works on the channel's pinned memory. The channel must outlive this.
  StagedCommunicator(StagingChannel& channel, std::unique_ptr<Communicator> inner)
      : channel_(channel), inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void run(Stream& stream, const CollectiveCall& call) override;
  /// Returns times of the host's collectives: without the copies to and from the device.
  CommunicationCount count(Collective collective) const override { return inner_->count(collective); }

 private:
  StagingChannel& channel_;
  std::unique_ptr<Communicator> inner_;
};

void StagedCommunicator::run(Stream& stream, const CollectiveCall& call) {
  const std::int64_t bytes = call.bytes(), mine = rank() * bytes, all = size() * bytes;
  // Of the first buffer: its bytes, and those from `begin` on that this rank sends. Of the second: its bytes.
  std::int64_t whole = bytes, begin = 0, sent = bytes, result = 0;
  const bool in_place = call.collective != Collective::reduce_scatter && call.collective != Collective::exchange;
  switch (call.collective) {
    case Collective::all_gather:
      whole = all, begin = mine;
      break;
    case Collective::reduce_scatter:
      whole = sent = all, result = call.elements * size_of(call.result);
      break;
    case Collective::broadcast:
      if (rank() != call.root()) sent = 0;
      break;
    case Collective::exchange:
      whole = sent = call.sent_extent(rank()), result = call.received_extent(rank());
      break;
    case Collective::all_reduce:
    case Collective::barrier:
      break;
  }
  channel_.check_room(whole, result);
  CollectiveCall staged = call;
  staged.from = channel_.whole();
  staged.to = in_place ? channel_.whole() : channel_.result();
  channel_.begin(stream);
  channel_.copy(channel_.whole() + begin, static_cast<const std::byte*>(call.from) + begin, sent);
  channel_.run(*inner_, staged);
  const auto receive = [&](std::int64_t first, std::int64_t count) {
    channel_.copy(static_cast<std::byte*>(call.to) + first, static_cast<std::byte*>(staged.to) + first, count);
  };
  switch (call.collective) {
    case Collective::all_gather:  // all but this rank's slice, which is already there
      receive(0, mine);
      receive(mine + bytes, all - mine - bytes);
      break;
    case Collective::reduce_scatter:
      receive(0, result);
      break;
    case Collective::all_reduce:
      receive(0, bytes);
      break;
    case Collective::broadcast:
      if (rank() != call.root()) receive(0, bytes);
      break;
    case Collective::exchange:
      for (const ExchangeRun& run : call.runs)
        if (run.receiver == rank()) receive(run.target * size_of(call.wire), run.elements * size_of(call.wire));
      break;
    case Collective::barrier:
      break;
  }
  channel_.end(stream);
}

}  // namespace

StagedBackend::StagedBackend(RankContext& context, Device& device, const DeviceCommSettings& settings)
    : context_(context),
      device_(device),
      settings_(settings),
      channel_(context, device, settings.largest_full, settings.largest_result, settings.staging) {}

std::string StagedBackend::description() const {
  return fmt::format("staged through {} of pinned host memory, sums in a fixed tree on the host",
                     format_bytes(channel_.region().size()));
}

std::unique_ptr<DeviceMemory> StagedBackend::allocate_shared(std::int64_t bytes) {
  return device_.allocate(MemoryKind::device, bytes);
}

std::unique_ptr<Communicator> StagedBackend::open(const ProcessGrid& grid, Group group, const std::string& name,
                                                  std::int64_t largest_contribution) {
  TESSERA_ASSERT(grid.size(group) > 1, "communicator '{}' has one rank: there is nobody to talk to", name);
  channel_.check_room(largest_contribution, 0);
  CommunicatorOptions options{settings_};
  options.external_workspace = !settings_.messages.empty();
  auto inner = make_communicator(context_, grid, group, channel_.region(), name, options);
  message_bytes_ += staging_bytes(grid, group, options);
  inner->set_workspace(settings_.messages);
  return std::make_unique<StagedCommunicator>(channel_, std::move(inner));
}

}  // namespace tessera
