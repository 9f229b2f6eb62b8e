#pragma once
// Collectives between GPUs through the hosts' memory: the same sums, to the bit, as ranks on CPUs have.

#include <memory>

#include "cuda/comm/staged/staging_channel.hpp"

namespace tessera {

class StagedCommunicator final : public Communicator {
 public:
  /// `inner` works on the channel's pinned memory. The channel must outlive this.
  StagedCommunicator(StagingChannel& channel, std::unique_ptr<Communicator> inner);

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void all_gather(Stream& stream, void* whole, std::int64_t elements_per_rank, DType dtype) override;
  void reduce_scatter(Stream& stream, const void* contribution, DType wire_dtype, void* shard, DType shard_dtype,
                      std::int64_t elements_per_rank) override;
  void all_reduce_sum(Stream& stream, std::int64_t* values, std::int64_t count) override;
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

}  // namespace tessera
