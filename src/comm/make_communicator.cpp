#include "tessera/comm/make_communicator.hpp"

#include <chrono>

#include "comm/point_to_point/point_to_point_communicator.hpp"
#include "comm/shared/shared_communicator.hpp"
#include "comm/tree_sum.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/threads.hpp"

namespace tessera {

namespace {

/// A group of one rank: nothing to move but the terms of its own sums and its runs to itself.
class SoloCommunicator final : public CountingCommunicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void run(Stream&, const CollectiveCall& call) override {
    if (call.collective == Collective::reduce_scatter)
      convert(call.from, call.wire, call.to, call.result, call.elements);
    for (const ExchangeRun& run : call.runs)
      convert(call.source_of(run), call.wire, call.target_of(run), call.result, run.elements);
    add(call, {});
  }
};

/// Emulates a slower network.
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

std::unique_ptr<Communicator> make(RankContext& context, const ProcessGrid& grid, Group group,
                                   const SharedRegion& region, const std::string& name,
                                   const CommunicatorOptions& options) {
  const auto members = grid.members(group, context.rank());
  const std::string full_name = fmt::format("{}/{}", name_of(group), name);
  if (members.size() == 1) return std::make_unique<SoloCommunicator>();
  if (grid.within_node(group) && !options.force_pairwise) {
    return std::make_unique<SharedCommunicator>(context, members, region, full_name, options);
  }
  return std::make_unique<PointToPointCommunicator>(context, members, full_name, options);
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(RankContext& context, const ProcessGrid& grid, Group group,
                                                const SharedRegion& region, const std::string& name,
                                                const CommunicatorOptions& options) {
  TESSERA_ASSERT(grid.world() == context.size() && grid.ranks_per_node() == context.ranks_per_node(),
                 "a grid of {} ranks on nodes of {} in a world of {} on nodes of {}", grid.world(),
                 grid.ranks_per_node(), context.size(), context.ranks_per_node());
  auto made = make(context, grid, group, region, name, options);
  if (!options.comm.emulate.on()) return made;
  return std::make_unique<EmulatedCommunicator>(std::move(made), options.comm.emulate);
}

std::int64_t staging_bytes(const ProcessGrid& grid, Group group, const CommunicatorOptions& options) {
  const std::int64_t size = grid.size(group);
  if (size == 1 || options.external_workspace || (grid.within_node(group) && !options.force_pairwise)) return 0;
  return PointToPointCommunicator::staging_bytes(size);
}

}  // namespace tessera
