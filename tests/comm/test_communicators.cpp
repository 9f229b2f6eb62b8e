#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "comm/collective_cases.hpp"
#include "comm/faulty.hpp"
#include "local_world/local_world.hpp"
#include "sanitized.hpp"
#include "tessera/comm/make_communicator.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

/// Runs `body` on ranks of one node with a communicator over the world.
void with_world(std::int64_t ranks, bool pairwise, std::int64_t region_bytes, double timeout,
                const std::function<void(RankContext&, Communicator&, SharedRegion&)>& body) {
  run_ranks(ranks, ranks, [&](RankContext& context) {
    SharedRegion region(context, region_bytes);
    CommunicatorOptions options;
    options.force_pairwise = pairwise;
    options.timeout_seconds = timeout;
    const ProcessGrid grid(ranks, ranks, ranks);
    const auto group = make_communicator(context, grid, Group::world, region, "test", options);
    body(context, *group, region);
  });
}

}  // namespace

TEST_CASE("collectives over shared memory and over messages are exact for all sizes and dtypes") {
  const auto stream = make_serial_stream("test");
  for (const bool pairwise : {false, true}) {
    for (const std::int64_t ranks : {1, 2, 3, 4, 5, 7, 8}) {
      REQUIRE_NOTHROW(with_world(ranks, pairwise, bytes_needed(ranks, 5000), 60, [&](auto&, auto& group, auto& region) {
        std::uint64_t seed = 1;
        for (const std::int64_t elements : {1, 63, 64, 1025}) {
          for (const DType wire : {DType::fp32, DType::bf16, DType::fp16}) {
            for (const DType shard : {DType::fp32, DType::bf16, DType::fp16}) {
              const auto problem = run_collectives(group, *stream, region.data(), elements, wire, shard, ++seed);
              require(problem.empty(), fmt::format("{} ranks, {} elements: {}", ranks, elements, problem));
            }
          }
        }
        const auto problem = run_collectives(group, *stream, region.data(), 5000, DType::fp32, DType::fp32, 7);
        require(problem.empty(), problem);
      }));
    }
  }
}

TEST_CASE("collectives of no elements come back") {
  const auto stream = make_serial_stream("test");
  for (const bool pairwise : {false, true}) {
    REQUIRE_NOTHROW(with_world(3, pairwise, 64, 60, [&](auto&, auto& group, auto& region) {
      require(run_collectives(group, *stream, region.data(), 0, DType::fp32, DType::fp32, 1).empty(), "none");
    }));
  }
}

TEST_CASE("messages larger than a chunk and a staging block") {
  const auto stream = make_serial_stream("test");
  const std::int64_t elements = 2'200'003;  // 8.8 MB per slice are two chunks; three ranks have two blocks
  REQUIRE_NOTHROW(with_world(3, true, bytes_needed(3, elements), 120, [&](auto&, auto& group, auto& region) {
    auto* const base = reinterpret_cast<float*>(region.data());
    for (std::int64_t i = 0; i < 3 * elements; ++i) base[i] = static_cast<float>((i * 7 + group.rank()) % 1000);
    std::vector<float> shard(static_cast<std::size_t>(elements));
    group.reduce_scatter(*stream, base, DType::fp32, shard.data(), DType::fp32, elements);
    for (std::int64_t i = 0; i < elements; ++i) {
      const std::int64_t at = (group.rank() * elements + i) * 7;
      const auto sum = static_cast<float>(at % 1000 + (at + 1) % 1000 + (at + 2) % 1000);
      require(shard[static_cast<std::size_t>(i)] == sum, "sum");
    }
    std::copy(shard.begin(), shard.end(), base + group.rank() * elements);
    group.all_gather(*stream, base, elements, DType::fp32);
    for (std::int64_t i = 0; i < 3 * elements; ++i) {
      require(base[i] == static_cast<float>(i * 7 % 1000 + (i * 7 + 1) % 1000 + (i * 7 + 2) % 1000), "gathered");
    }
  }));
}

TEST_CASE("slices of more messages than the window has") {
  const auto stream = make_serial_stream("test");
  constexpr std::int64_t chunk = std::int64_t{1} << 20, elements = 16 * chunk + 1;  // of fp32: 16 messages and one more
  REQUIRE_NOTHROW(with_world(2, true, bytes_needed(2, elements) / 2, 20, [&](auto&, auto& group, auto& region) {
    auto* const base = reinterpret_cast<float*>(region.data());
    const auto each = [&](std::int64_t member, auto&& visit) {  // of both ends of every message
      for (std::int64_t at = member * elements, end = at + elements; at < end; at += chunk) {
        visit(at);
        visit(std::min(at + chunk, end) - 1);
      }
    };
    each(group.rank(), [&](std::int64_t at) { base[at] = static_cast<float>(at); });
    group.all_gather(*stream, base, elements, DType::fp32);
    each(1 - group.rank(), [&](std::int64_t at) { require(base[at] == static_cast<float>(at), "gathered"); });
  }));
}

TEST_CASE("shard and replica groups on nodes of any shape") {
  struct Shape {
    std::int64_t world, per_node, group;
  };
  const auto stream = make_serial_stream("test");
  for (const Shape shape : {Shape{4, 4, 2}, {4, 2, 2}, {4, 1, 2}, {4, 2, 4}, {6, 2, 3}, {6, 3, 3}, {8, 4, 2}}) {
    REQUIRE_NOTHROW(run_ranks(shape.world, shape.per_node, [&](RankContext& context) {
      const ProcessGrid grid(shape.world, shape.per_node, shape.group);
      SharedRegion region(context, bytes_needed(shape.world, 100));
      for (std::int64_t other = 0; other < shape.world; ++other) {
        require((region.peer(other) != nullptr) ==
                    (grid.members(Group::node, other) == grid.members(Group::node, context.rank())),
                "peer");
      }
      for (const Group kind : {Group::self, Group::world, Group::shard, Group::replica, Group::node}) {
        const auto group = make_communicator(context, grid, kind, region, "test");
        require(group->size() == grid.size(kind), "size");
        require(grid.members(kind, context.rank())[static_cast<std::size_t>(group->rank())] == context.rank(), "rank");
        for (int round = 0; round < 3; ++round) {
          const auto problem = run_collectives(*group, *stream, region.data(), 100, DType::fp32, DType::fp32, 3);
          require(problem.empty(), problem);
        }
      }
    }));
  }
}

TEST_CASE("communicators of a rank are in flight at the same time on different queues") {
  for (const bool pairwise : {false, true}) {
    REQUIRE_NOTHROW(run_ranks(4, 4, [&](RankContext& context) {
      const ProcessGrid grid(4, 4, 2);
      const std::int64_t room = bytes_needed(4, 300);
      SharedRegion region(context, 3 * room);
      CommunicatorOptions options;
      options.force_pairwise = pairwise;
      const auto gather = make_communicator(context, grid, Group::shard, region, "gather", options);
      const auto reduce = make_communicator(context, grid, Group::shard, region, "reduce", options);
      const auto replica = make_communicator(context, grid, Group::replica, region, "replica", options);
      std::mutex lock;
      std::string problems;
      const auto queue = [&](Communicator& group, std::int64_t number, std::uint64_t seed) {
        const auto stream = make_serial_stream("queue");
        for (std::uint64_t round = 0; round < 40; ++round) {
          const auto problem = run_collectives(group, *stream, region.data() + number * room, 300, DType::fp32,
                                               DType::fp32, seed + round);
          const std::lock_guard guard(lock);
          problems += problem;
        }
      };
      std::thread first([&] { queue(*gather, 0, 100); }), second([&] { queue(*reduce, 1, 200); });
      queue(*replica, 2, 300);
      first.join(), second.join();
      require(problems.empty(), problems);
    }));
  }
}

TEST_CASE("a thread pool shares the work and changes nothing") {
  const std::int64_t elements = 200'001;
  REQUIRE_NOTHROW(run_ranks(3, 3, [&](RankContext& context) {
    const ProcessGrid grid(3, 3, 3);
    SharedRegion region(context, bytes_needed(3, elements));
    ThreadPool pool(3, 9);
    CommunicatorOptions options;
    options.pool = &pool;
    const auto group = make_communicator(context, grid, Group::world, region, "pool", options);
    const auto stream = make_serial_stream("test");
    const auto problem = run_collectives(*group, *stream, region.data(), elements, DType::bf16, DType::fp32, 11);
    require(problem.empty(), problem);
  }));
}

TEST_CASE("what is counted is what the design's formulas count") {
  for (const bool pairwise : {false, true}) {
    REQUIRE_NOTHROW(with_world(4, pairwise, 100'000, 60, [&](auto&, auto& group, auto& region) {
      const auto stream = make_serial_stream("test");
      std::vector<float> shard(1000);
      std::vector<std::int64_t> values(100);
      group.all_gather(*stream, region.data(), 1000, DType::bf16);
      group.reduce_scatter(*stream, region.data(), DType::fp32, shard.data(), DType::fp32, 1000);
      group.reduce_scatter(*stream, region.data(), DType::bf16, shard.data(), DType::fp32, 1000);
      group.all_reduce(*stream, values.data(), 100, Reduction::sum);
      group.broadcast(*stream, values.data(), 800, 2);
      require(group.count(Collective::all_gather).bytes == 3 * 1000 * 2, "all_gather");
      require(group.count(Collective::reduce_scatter).bytes == 3 * 1000 * 6, "reduce_scatter");
      require(group.count(Collective::reduce_scatter).calls == 2, "calls");
      require(group.count(Collective::all_reduce).bytes == 2 * 3 * 800 / 4, "all_reduce");
      require(group.count(Collective::broadcast).bytes == 3 * 800 / 4, "broadcast");
      require(group.count(Collective::all_gather).seconds > 0, "time");
    }));
  }
}

TEST_CASE("a rank that never comes is named when the time is up") {
  const auto stream = make_serial_stream("test");
  const double timeout = 1;  // seconds, within which all come to the first
  for (const bool pairwise : {false, true}) {
    const auto play = [&] {
      with_world(4, pairwise, 4096, timeout, [&](auto& context, auto& group, auto& region) {
        group.all_gather(*stream, region.data(), 10, DType::fp32);
        if (context.rank() == 2) {
          while (true) {  // busy elsewhere until the others give up
            context.notice().check();
            std::this_thread::yield();
          }
        }
        group.all_gather(*stream, region.data(), 10, DType::fp32);
      });
    };
    REQUIRE_THROWS_AS(play(), TimeoutError);
    REQUIRE_THROWS_WITH(play(), Catch::Contains("collective 2 of 'world/test' (all_gather of 10 fp32 a rank)") &&
                                    Catch::Contains("did not") && Catch::Contains("2"));
  }
}

TEST_CASE("ranks in different collectives find out, with both named") {
  const auto stream = make_serial_stream("test");
  for (const bool pairwise : {false, true}) {
    for (const std::int64_t ranks : {2, 5}) {
      const auto play = [&](bool other_kind) {
        with_world(ranks, pairwise, 4096, 30, [&](auto& context, auto& group, auto& region) {
          group.barrier(*stream);
          if (context.rank() != 1) {
            group.all_gather(*stream, region.data(), 10, DType::fp32);
          } else if (other_kind) {
            group.barrier(*stream);
          } else {
            group.all_gather(*stream, region.data(), 11, DType::fp32);
          }
        });
      };
      REQUIRE_THROWS_WITH(play(true), Catch::Contains("barrier") && Catch::Contains("all_gather of 10 fp32"));
      REQUIRE_THROWS_WITH(play(false), Catch::Contains("all_gather of 11 fp32") && Catch::Contains("of 10 fp32"));
    }
  }
}

TEST_CASE("buffers outside of the shared region or at different offsets are refused") {
  const auto stream = make_serial_stream("test");
  REQUIRE_THROWS_AS(with_world(2, false, 4096, 30,
                               [&](auto&, auto& group, auto&) {
                                 std::vector<float> outside(20);
                                 group.all_gather(*stream, outside.data(), 10, DType::fp32);
                               }),
                    InternalError);
  REQUIRE_THROWS_WITH(with_world(2, false, 4096, 30,
                                 [&](auto& context, auto& group, auto& region) {
                                   group.all_gather(*stream, region.data() + 64 * context.rank(), 10, DType::fp32);
                                 }),
                      Catch::Contains("offset"));
}

TEST_CASE("a rank that throws frees the others from every collective") {
  const auto stream = make_serial_stream("test");
  for (const bool pairwise : {false, true}) {
    for (int where = 0; where < 5; ++where) {
      std::atomic<int> freed{0}, inside{0};
      const auto play = [&] {
        with_world(4, pairwise, 4096, 0, [&](auto& context, auto& group, auto& region) {
          if (context.rank() == 3) {
            while (inside < 3) std::this_thread::yield();
            throw IoError("the disk is full");
          }
          ++inside;
          std::vector<std::int64_t> values(100);
          try {
            switch (where) {
              case 0:
                group.all_gather(*stream, region.data(), 10, DType::fp32);
                break;
              case 1:
                group.reduce_scatter(*stream, region.data(), DType::fp32, values.data(), DType::fp32, 10);
                break;
              case 2:
                group.all_reduce(*stream, values.data(), 100, Reduction::sum);
                break;
              case 3:
                group.broadcast(*stream, values.data(), 800, 3);
                break;
              default:
                group.barrier(*stream);
            }
          } catch (const PeerError& error) {
            if (error.code() == ExitCode::input_output) ++freed;
            throw;
          }
        });
      };
      REQUIRE_THROWS_WITH(play(), "the disk is full");
      REQUIRE(freed == 3);
    }
  }
}

TEST_CASE("delays change nothing") {
  const auto stream = make_serial_stream("test");
  for (const bool pairwise : {false, true}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      REQUIRE_NOTHROW(run_ranks(4, 4, [&](RankContext& context) {
        SharedRegion region(context, bytes_needed(4, 70));
        CommunicatorOptions options;
        options.force_pairwise = pairwise;
        FaultPlan plan;
        plan.seed = seed, plan.delay = 0.5, plan.max_delay_microseconds = 200;
        const auto group =
            make_faulty(make_communicator(context, ProcessGrid(4, 4, 4), Group::world, region, "late", options), plan,
                        context.notice());
        for (int round = 0; round < 5; ++round) {
          const auto problem = run_collectives(*group, *stream, region.data(), 70, DType::fp32, DType::fp32, seed);
          require(problem.empty(), problem);
        }
      }));
    }
  }
}

TEST_CASE("faults strike where they are told to: a drop times out, a kill frees, a flip is one bit") {
  const auto stream = make_serial_stream("test");
  const auto play = [&](const FaultPlan& plan, double timeout,
                        const std::function<void(Communicator&, SharedRegion&)>& body) {
    run_ranks(3, 3, [&](RankContext& context) {
      SharedRegion region(context, 4096);
      CommunicatorOptions options;
      options.timeout_seconds = timeout;
      auto group = make_communicator(context, ProcessGrid(3, 3, 3), Group::world, region, "faulty", options);
      if (context.rank() == 1) group = make_faulty(std::move(group), plan, context.notice());
      body(*group, region);
    });
  };
  const auto barriers = [&](Communicator& group, SharedRegion&) {
    for (int i = 0; i < 6; ++i) group.barrier(*stream);
  };
  FaultPlan drop;
  drop.drop = 1, drop.only_call = 3;
  REQUIRE_THROWS_WITH(play(drop, 1, barriers),
                      Catch::Contains("collective 4") && Catch::Contains("rank 1 did not arrive"));
  FaultPlan kill;
  kill.kill = 1, kill.only_call = 3;
  REQUIRE_THROWS_WITH(play(kill, 30, barriers), Catch::Contains("rank 1 was made to fail at call 3"));
  FaultPlan flip;
  flip.flip = 1, flip.only_call = 2;
  std::atomic<int> flipped{0};
  REQUIRE_NOTHROW(play(flip, 30, [&](Communicator& group, SharedRegion& region) {
    for (int call = 0; call < 5; ++call) {
      std::memset(region.data(), 0, 1200);
      group.barrier(*stream);
      group.all_gather(*stream, region.data(), 100, DType::fp32);
      for (int i = 0; i < 1200; ++i) flipped += std::popcount(std::to_integer<unsigned>(region.data()[i]));
      group.barrier(*stream);
    }
  }));
  REQUIRE(flipped == 0);  // call 2 is a barrier here, which has no bits
  flip.only_call = 4;
  REQUIRE_NOTHROW(play(flip, 30, [&](Communicator& group, SharedRegion& region) {
    for (int call = 0; call < 5; ++call) {
      std::memset(region.data(), 0, 1200);
      group.barrier(*stream);
      group.all_gather(*stream, region.data(), 100, DType::fp32);
      for (int i = 0; i < 1200; ++i) flipped += std::popcount(std::to_integer<unsigned>(region.data()[i]));
      group.barrier(*stream);
    }
  }));
  REQUIRE(flipped == 1);
}

TEST_CASE("an emulated network takes its time, and is counted with it") {
  const auto stream = make_serial_stream("test");
  REQUIRE_NOTHROW(run_ranks(2, 2, [&](RankContext& context) {
    SharedRegion region(context, bytes_needed(2, 1000));
    CommunicatorOptions options;
    options.comm.emulate = {.latency = 0.002, .bandwidth = 4000.0 / 0.003};
    const auto group = make_communicator(context, ProcessGrid(2, 2, 2), Group::world, region, "slow", options);
    const auto problem = run_collectives(*group, *stream, region.data(), 1000, DType::fp32, DType::fp32, 1);
    require(problem.empty(), problem);
    // Never faster than asked: 2 ms and 4000 bytes at 4000 bytes in 3 ms.
    require(group->count(Collective::all_gather).seconds >= 5e-3, "too fast");
    require(group->count(Collective::all_gather).bytes == 4000, "bytes");
  }));
}

TEST_CASE("staging is known before a communicator exists") {
  REQUIRE(staging_bytes(ProcessGrid(4, 4, 4), Group::world) == 0);
  REQUIRE(staging_bytes(ProcessGrid(4, 2, 4), Group::world) == 16 << 20);
  REQUIRE(staging_bytes(ProcessGrid(4, 2, 2), Group::shard) == 0);
  REQUIRE(staging_bytes(ProcessGrid(4, 4, 1), Group::shard) == 0);
  CommunicatorOptions options;
  options.force_pairwise = true;
  REQUIRE(staging_bytes(ProcessGrid(4, 4, 4), Group::world, options) == 16 << 20);
}
