// Shared memory, messages and threads give the same bits: all against one explicit reference.

#include "comm/collective_cases.hpp"
#include "mpi_world.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

std::string play(bool pairwise, std::int64_t group_size, std::int64_t elements) {
  const ProcessGrid grid(world().size(), world().ranks_per_node(), group_size);
  SharedRegion region(world(), bytes_needed(world().size(), elements));
  CommunicatorOptions options;
  options.force_pairwise = pairwise;
  options.timeout_seconds = 30;
  const auto stream = make_serial_stream("test");
  std::uint64_t seed = 1;
  for (const Group kind : {Group::world, Group::shard, Group::replica, Group::node}) {
    const auto group = make_communicator(world(), grid, kind, region, "test", options);
    for (const DType wire : {DType::fp32, DType::bf16, DType::fp16}) {
      for (const DType shard : {DType::fp32, DType::bf16}) {
        const auto problem = run_collectives(*group, *stream, region.data(), elements, wire, shard, ++seed);
        if (!problem.empty()) return fmt::format("{}: {}", name_of(kind), problem);
      }
    }
  }
  return "";
}

}  // namespace

TEST_CASE("collectives between processes are exact over shared memory and over messages, on nodes of any shape") {
  const std::int64_t before = world().ranks_per_node();
  for (const std::int64_t per_node : {std::int64_t{1}, std::int64_t{2}, world().size()}) {
    if (world().size() % per_node != 0) continue;
    world().set_ranks_per_node(per_node);
    for (const bool pairwise : {false, true}) {
      for (std::int64_t group = 1; group <= world().size(); ++group) {
        if (world().size() % group != 0) continue;
        for (const std::int64_t elements : {1, 777, 4096}) {
          const std::string problem = play(pairwise, group, elements);
          INFO(problem << " (" << per_node << " ranks a node, groups of " << group << ", " << elements << " elements)");
          REQUIRE_ALL(problem.empty());
        }
      }
    }
  }
  world().set_ranks_per_node(before);
}
