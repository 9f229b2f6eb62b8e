#pragma once
// A group of one rank: nothing to move.

#include "comm/collective_call.hpp"
#include "comm/tree_sum.hpp"

namespace tessera {

class SoloCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_gather(Stream&, void*, std::int64_t, DType) override { count(Collective::all_gather, 0); }
  void reduce_scatter(Stream&, const void* contribution, DType wire_dtype, void* shard, DType shard_dtype,
                      std::int64_t elements_per_rank) override {
    convert(contribution, wire_dtype, shard, shard_dtype, elements_per_rank);
    count(Collective::reduce_scatter, 0);
  }
  void all_reduce_sum(Stream&, std::int64_t*, std::int64_t) override { count(Collective::all_reduce, 0); }
  void broadcast(Stream&, void*, std::int64_t, int) override { count(Collective::broadcast, 0); }
  void exchange(Stream&, const void* sent, void* received, std::span<const ExchangeRun> runs, DType dtype) override {
    for (const ExchangeRun& run : runs)
      convert(source_of(run, sent, dtype), dtype, target_of(run, received, dtype), dtype, run.elements);
    count(Collective::exchange, 0);
  }
  void barrier(Stream&) override {}
  CommunicationCount count(Collective collective) const override { return counters_.get(collective); }

 private:
  void count(Collective collective, std::int64_t bytes) { counters_.add(collective, bytes, 0); }
  CallCounters counters_;
};

}  // namespace tessera
