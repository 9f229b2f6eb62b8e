#include <array>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <thread>

#include "local_world/local_world.hpp"
#include "tessera/comm/control_plane.hpp"

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
      const std::vector<double> values(static_cast<std::size_t>(rank), 0.5 * static_cast<double>(rank));
      const auto all_values = plane.all_gather(values), first_values = plane.gather(values);
      for (std::size_t i = 0; i < all_values.size(); ++i)
        CHECK_RANK(all_values[i] == std::vector(i, 0.5 * static_cast<double>(i)));
      CHECK_RANK(std::ssize(all_values) == ranks && (rank == 0 ? first_values == all_values : first_values.empty()));
      const std::vector<std::string> texts{"two\nlines", "", "1:a"};
      CHECK_RANK(plane.broadcast(rank == ranks - 1 ? texts : std::vector<std::string>{}, plane.size() - 1) == texts);
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

TEST_CASE("a rank that does not answer in time is named, with its host and what was going on") {
  REQUIRE_THROWS_WITH(
      run_ranks(2, 2,
                [](RankContext& context) {
                  PeerWaits& waits = context.control().waits();
                  waits.hosts = {"a", "b"};
                  const WaitPhase phase(waits, "a test ran", 0.2, "test.timeout");
                  if (context.rank() == 1) {  // hears only the end
                    while (!context.notice().raised()) std::this_thread::yield();
                  } else {
                    context.control().barrier();
                  }
                }),
      "rank 1 (b) did not answer within 0.2 s (test.timeout) while a test ran. It hangs or was stopped, or its disk or "
      "network does not answer.");
}

TEST_CASE("a phase ends where it began") {
  PeerWaits waits;
  {
    const WaitPhase outer(waits, "outer", 1, "a");
    {
      const WaitPhase inner(waits, "inner", 2, "b");
      REQUIRE((waits.phase == "inner" && waits.seconds == 2 && waits.option == "b"));
    }
    REQUIRE((waits.phase == "outer" && waits.seconds == 1 && waits.option == "a"));
  }
  REQUIRE((waits.phase == PeerWaits().phase && waits.seconds == PeerWaits().seconds && waits.option.empty()));
}

TEST_CASE("an announced length that cannot be is an error, not an allocation") {
  for (const std::int64_t length : {std::int64_t{-1}, (std::int64_t{1} << 30) + 1, std::int64_t{1} << 60}) {
    REQUIRE_THROWS_WITH(run_ranks(2, 1,
                                  [&](RankContext& context) {
                                    const auto transport = context.open_transport({0, 1});
                                    if (context.rank() == 1) {
                                      const auto slot = transport->start_send(0, 0, &length, sizeof length);
                                      while (!transport->finished(slot)) std::this_thread::yield();
                                    } else {
                                      ControlPlane(*transport, context.notice()).receive(1);
                                    }
                                  }),
                        Catch::Contains("out of step"));
  }
}
