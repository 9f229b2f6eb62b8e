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
  void all_gather(Stream& stream, void* whole, std::int64_t elements_per_rank, DType dtype) override;
  void reduce_scatter(Stream& stream, const void* contribution, DType wire_dtype, void* shard, DType shard_dtype,
                      std::int64_t elements_per_rank) override;
  void all_reduce(Stream& stream, std::int64_t* values, std::int64_t count, Reduction reduction) override;
  void broadcast(Stream& stream, void* data, std::int64_t bytes, int root) override;
  void exchange(Stream& stream, const void* sent, void* received, std::span<const ExchangeRun> runs,
                DType dtype) override;
  void barrier(Stream& stream) override;
  /// Returns times of the host's collectives: without the copies to and from the device.
  CommunicationCount count(Collective collective) const override { return inner_->count(collective); }

 private:
  StagingChannel& channel_;
  std::unique_ptr<Communicator> inner_;
};

void StagedCommunicator::all_gather(Stream& stream, void* whole, std::int64_t elements_per_rank, DType dtype) {
  const std::int64_t bytes = elements_per_rank * size_of(dtype), mine = rank() * bytes, total = size() * bytes;
  channel_.check_room(total, 0);
  std::byte* const staged = channel_.whole();
  auto* const device = static_cast<std::byte*>(whole);
  channel_.begin(stream);
  channel_.copy(staged + mine, device + mine, bytes);
  channel_.work(
      {[](const StagedWork& work, Stream& host) { work.inner->all_gather(host, work.data, work.elements, work.dtype); },
       inner_.get(), staged, nullptr, elements_per_rank, dtype});
  // All but this rank's slice, which is already there.
  if (mine > 0) channel_.copy(device, staged, mine);
  if (const std::int64_t next = mine + bytes; next < total) channel_.copy(device + next, staged + next, total - next);
  channel_.end(stream);
}

void StagedCommunicator::reduce_scatter(Stream& stream, const void* contribution, DType wire_dtype, void* shard,
                                        DType shard_dtype, std::int64_t elements_per_rank) {
  const std::int64_t sent = size() * elements_per_rank * size_of(wire_dtype);
  const std::int64_t received = elements_per_rank * size_of(shard_dtype);
  channel_.check_room(sent, received);
  channel_.begin(stream);
  channel_.copy(channel_.whole(), contribution, sent);
  channel_.work({[](const StagedWork& work, Stream& host) {
                   work.inner->reduce_scatter(host, work.data, work.dtype, work.result, work.result_dtype,
                                              work.elements);
                 },
                 inner_.get(), channel_.whole(), channel_.result(), elements_per_rank, wire_dtype, shard_dtype});
  channel_.copy(shard, channel_.result(), received);
  channel_.end(stream);
}

void StagedCommunicator::all_reduce(Stream& stream, std::int64_t* values, std::int64_t count, Reduction reduction) {
  const std::int64_t bytes = count * 8;
  channel_.check_room(bytes, 0);
  channel_.begin(stream);
  channel_.copy(channel_.whole(), values, bytes);
  StagedWork reduce{[](const StagedWork& work, Stream& host) {
                      work.inner->all_reduce(host, static_cast<std::int64_t*>(work.data), work.elements,
                                             work.reduction);
                    },
                    inner_.get(),
                    channel_.whole(),
                    nullptr,
                    count,
                    DType::int64};
  reduce.reduction = reduction;
  channel_.work(reduce);
  channel_.copy(values, channel_.whole(), bytes);
  channel_.end(stream);
}

void StagedCommunicator::broadcast(Stream& stream, void* data, std::int64_t bytes, int root) {
  channel_.check_room(bytes, 0);
  channel_.begin(stream);
  if (rank() == root) channel_.copy(channel_.whole(), data, bytes);
  channel_.work(
      {[](const StagedWork& work, Stream& host) { work.inner->broadcast(host, work.data, work.elements, work.root); },
       inner_.get(), channel_.whole(), nullptr, bytes, DType::byte, DType::byte, root});
  if (rank() != root) channel_.copy(data, channel_.whole(), bytes);
  channel_.end(stream);
}

void StagedCommunicator::exchange(Stream& stream, const void* sent, void* received, std::span<const ExchangeRun> runs,
                                  DType dtype) {
  const std::int64_t out = sent_extent(runs, rank()) * size_of(dtype);
  channel_.check_room(out, received_extent(runs, rank()) * size_of(dtype));
  channel_.begin(stream);
  if (out > 0) channel_.copy(channel_.whole(), sent, out);
  channel_.work({[](const StagedWork& work, Stream& host) {
                   work.inner->exchange(host, work.data, work.result, work.runs, work.dtype);
                 },
                 inner_.get(), channel_.whole(), channel_.result(), 0, dtype, dtype, 0, runs});
  for (const ExchangeRun& run : runs) {
    if (run.receiver != rank()) continue;
    channel_.copy(target_of(run, received, dtype), target_of(run, channel_.result(), dtype),
                  run.elements * size_of(dtype));
  }
  channel_.end(stream);
}

void StagedCommunicator::barrier(Stream& stream) {
  channel_.begin(stream);
  channel_.work({[](const StagedWork& work, Stream& host) { work.inner->barrier(host); }, inner_.get()});
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
  CommunicatorOptions options;
  options.timeout_seconds = settings_.timeout_seconds;
  options.force_pairwise = settings_.force_pairwise;
  options.external_workspace = !settings_.messages.empty();
  auto inner = make_communicator(context_, grid, group, channel_.region(), name, options);
  message_bytes_ += staging_bytes(grid, group, options);
  inner->set_workspace(settings_.messages);
  return std::make_unique<StagedCommunicator>(channel_, make_emulated(std::move(inner), settings_.comm.emulate));
}

}  // namespace tessera
