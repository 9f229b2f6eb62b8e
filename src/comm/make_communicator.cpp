#include "tessera/comm/make_communicator.hpp"

#include "comm/point_to_point/point_to_point_communicator.hpp"
#include "comm/shared/shared_communicator.hpp"
#include "comm/tree_sum.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

/// A group of one rank: nothing to move.
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
  void all_reduce(Stream&, std::int64_t*, std::int64_t, Reduction) override { count(Collective::all_reduce, 0); }
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

}  // namespace

std::unique_ptr<Communicator> make_communicator(RankContext& context, const ProcessGrid& grid, Group group,
                                                const SharedRegion& region, const std::string& name,
                                                const CommunicatorOptions& options) {
  TESSERA_ASSERT(grid.world() == context.size() && grid.ranks_per_node() == context.ranks_per_node(),
                 "a grid of {} ranks on nodes of {} in a world of {} on nodes of {}", grid.world(),
                 grid.ranks_per_node(), context.size(), context.ranks_per_node());
  const auto members = grid.members(group, context.rank());
  const std::string full_name = fmt::format("{}/{}", name_of(group), name);
  if (members.size() == 1) return std::make_unique<SoloCommunicator>();
  if (grid.within_node(group) && !options.force_pairwise) {
    return std::make_unique<SharedCommunicator>(context, members, region, full_name, options);
  }
  return std::make_unique<PointToPointCommunicator>(context, members, full_name, options);
}

std::int64_t staging_bytes(const ProcessGrid& grid, Group group, const CommunicatorOptions& options) {
  const std::int64_t size = grid.size(group);
  if (size == 1 || options.external_workspace || (grid.within_node(group) && !options.force_pairwise)) return 0;
  return PointToPointCommunicator::staging_bytes(size);
}

}  // namespace tessera
