#include <algorithm>
#include <set>

#include "comm/mpi/mpi_transport.hpp"
#include "mpi_world.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("every rank has a number, and nodes are contiguous") {
  const auto numbers = world().control().all_gather(std::to_string(world().rank()));
  REQUIRE_ALL(static_cast<std::int64_t>(std::set<std::string>(numbers.begin(), numbers.end()).size()) ==
              world().size());
  for (std::size_t i = 0; i < numbers.size(); ++i) REQUIRE_ALL(numbers[i] == std::to_string(i));
  REQUIRE_ALL(!world().host().empty());
  REQUIRE_ALL(world().node_members().at(static_cast<std::size_t>(world().node_rank())) == world().rank());
}

TEST_CASE("node shapes can be tried, and impossible ones are refused on all ranks") {
  const std::int64_t before = world().ranks_per_node();
  const std::vector<std::int64_t> machine = world().machine_members();
  REQUIRE_ALL(static_cast<std::int64_t>(machine.size()) % before == 0);
  REQUIRE_ALL(std::count(machine.begin(), machine.end(), world().rank()) == 1);
  for (std::int64_t ranks = 0; ranks <= world().size() + 1; ++ranks) {
    if (ranks > 0 && world().size() % ranks == 0 && ranks <= before) {
      world().set_ranks_per_node(ranks);
      REQUIRE_ALL(world().ranks_per_node() == ranks);
      REQUIRE_ALL(world().node() == world().rank() / ranks);
      REQUIRE_ALL(world().machine_members() == machine);  // the machine is unchanged
    } else if (ranks <= 0 || world().size() % ranks != 0) {
      bool refused = false;
      try {
        world().set_ranks_per_node(ranks);
      } catch (const UsageError&) {
        refused = true;
      }
      REQUIRE_ALL(refused);
    }
  }
  world().set_ranks_per_node(before);
}

TEST_CASE("large blocks travel whole over the control plane") {
  if (world().size() < 2) return;
  std::vector<std::byte> block(3'000'001);
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(i * 7 % 251);
  bool same = true;
  if (world().rank() == 1) world().control().send(0, block);
  if (world().rank() == 0) same = world().control().receive(1) == block;
  REQUIRE_ALL(same);
}

TEST_CASE("a receive that is given up half way writes nothing afterwards") {
  if (world().size() < 2) return;
  bool same = true;
  if (world().rank() < 2) {
    const auto transport = world().open_transport({0, 1}), other = world().open_transport({0, 1});
    std::vector<std::byte> block(std::size_t{64} << 20, static_cast<std::byte>(world().rank()));
    const auto bytes = static_cast<std::int64_t>(block.size());
    if (world().rank() == 1) {
      transport->start_send(0, 0, block.data(), bytes);
      world().control().receive(0);  // which moves the block on
    } else {
      const auto slot = transport->start_receive(1, 0, block.data(), bytes);
      const volatile std::byte& first = block.front();
      while (first == std::byte{0} && !transport->finished(slot)) {
      }
      transport->cancel();
      const std::vector<std::byte> then = block;
      std::byte never{};
      const auto progress = other->start_receive(1, 0, &never, 1);
      for (int i = 0; i < 10'000; ++i) other->finished(progress);
      same = block == then;
      world().control().send(1, {});
    }
  }
  REQUIRE_ALL(same);
}

TEST_CASE("a transport ends quietly where MPI cannot tell whether a rank has failed") {
  struct Broken final : FailureNotice {
    bool raise(const Failure&) override { return true; }
    bool raised() override { throw CommunicationError("MPI_Iprobe failed"); }
    Failure failure() override { return {}; }
  } notice;
  { const MpiTransport transport(duplicate(MPI_COMM_WORLD), notice); }
  REQUIRE_ALL(notice.is_over());
}
