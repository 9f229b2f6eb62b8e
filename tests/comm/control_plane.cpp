#include "tessera/comm/control_plane.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <stdexcept>

#include "tessera/comm/local_world.hpp"

using namespace tessera;

// Assertions of ranks are thrown as exceptions: Catch2 v2's own are not for several threads.
#define CHECK_RANK(condition) \
  if (!(condition)) throw std::runtime_error(#condition)

TEST_CASE("the control plane gathers, broadcasts and sums over any number of ranks") {
  for (const std::int64_t ranks : {1, 2, 3, 4, 5, 7, 8, 13}) {
    REQUIRE_NOTHROW(run_ranks(ranks, 1, [&](RankContext& context) {
      ControlPlane& plane = context.control();
      const auto rank = context.rank();
      CHECK_RANK(plane.rank() == rank && plane.size() == ranks);
      CHECK_RANK(plane.sum(rank) == ranks * (ranks - 1) / 2);
      CHECK_RANK(plane.maximum(-rank) == 0);
      CHECK_RANK(plane.maximum(static_cast<double>(rank) / 2) == static_cast<double>(ranks - 1) / 2);
      const double sum = plane.sum(0.1 * static_cast<double>(rank));
      CHECK_RANK(plane.maximum(sum) == -plane.maximum(-sum));
      for (int root = 0; root < ranks; ++root) {
        CHECK_RANK(plane.broadcast(rank == root ? "from " + std::to_string(root) : "", root) ==
                   "from " + std::to_string(root));
      }
      const std::string mine(static_cast<std::size_t>(rank * 3), static_cast<char>('0' + rank % 10));
      const auto everywhere = plane.all_gather(mine), first = plane.gather(mine);
      CHECK_RANK(everywhere.size() == static_cast<std::size_t>(ranks));
      for (std::size_t i = 0; i < everywhere.size(); ++i) {
        CHECK_RANK(everywhere[i] == std::string(i * 3, static_cast<char>('0' + i % 10)));
      }
      CHECK_RANK(rank == 0 ? first == everywhere : first.empty());
      plane.barrier();
    }));
  }
}

TEST_CASE("blocks go from rank to rank in order, and parts have numbers of their own") {
  REQUIRE_NOTHROW(run_ranks(6, 2, [](RankContext& context) {
    ControlPlane part = context.control().part({context.rank() % 2, 2 + context.rank() % 2, 4 + context.rank() % 2});
    CHECK_RANK(part.rank() == context.rank() / 2);
    CHECK_RANK(part.sum(context.rank()) == 6 + 3 * (context.rank() % 2));
    std::vector<std::byte> block(100'000, static_cast<std::byte>(part.rank()));
    if (part.rank() > 0) {
      part.send(0, block);
      part.send(0, {});
    } else {
      for (int from = 1; from < 3; ++from) {
        CHECK_RANK(part.receive(from) == std::vector<std::byte>(100'000, static_cast<std::byte>(from)));
        CHECK_RANK(part.receive(from).empty());
      }
    }
  }));
}

TEST_CASE("a rank that fails frees those that wait for its words") {
  REQUIRE_THROWS_WITH(run_ranks(4, 2,
                                [](RankContext& context) {
                                  if (context.rank() == 2) throw UsageError("rank two is out");
                                  context.control().barrier();
                                }),
                      "rank two is out");
}

TEST_CASE("a block of another size than expected is reported") {
  REQUIRE_THROWS_AS(run_ranks(2, 1,
                              [](RankContext& context) {
                                std::array<std::byte, 8> block{};
                                if (context.rank() == 0) {
                                  context.control().receive(1, block);
                                } else {
                                  context.control().send(0, std::span(block).first(7));
                                }
                              }),
                    CommunicationError);
}
