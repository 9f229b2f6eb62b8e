#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tessera/backend/thread_pool.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "refused_threads.hpp"
#include "tessera/base/error.hpp"

using tessera::ThreadPool;

TEST_CASE("a pool runs every task once, on threads of its own") {
  for (const int threads : {1, 2, 3, 5, 8}) {
    ThreadPool pool(threads);
    REQUIRE(pool.threads() == threads);
    for (const std::int64_t tasks : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(tasks));
      std::atomic<bool> worker_in_range{true};
      pool.parallel_for(tasks, [&](std::int64_t task, int worker) {
        seen[static_cast<std::size_t>(task)].fetch_add(1);
        if (worker < 0 || worker >= threads) worker_in_range = false;
      });
      for (const auto& count : seen) REQUIRE(count == 1);
      REQUIRE(worker_in_range);
    }
  }
}

TEST_CASE("many short loops in a row never mix, nor lose a task") {
  ThreadPool pool(4);
  for (int loop = 0; loop < 20000; ++loop) {
    const std::int64_t tasks = 2 + loop % 9;
    std::atomic<std::int64_t> sum{0};
    pool.parallel_for(tasks, [&](std::int64_t task, int) { sum += task + loop; });
    REQUIRE(sum == tasks * (tasks - 1) / 2 + tasks * loop);
  }
}

TEST_CASE("no two threads have the same worker number at a time") {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> busy(4);
  std::atomic<bool> clash{false};
  pool.parallel_for(5000, [&](std::int64_t, int worker) {
    auto& mine = busy[static_cast<std::size_t>(worker)];
    if (mine.fetch_add(1) != 0) clash = true;
    std::this_thread::yield();
    mine.fetch_sub(1);
  });
  REQUIRE_FALSE(clash);
}

TEST_CASE("an exception of a task reaches the caller, and the pool lives on") {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 50; ++round) {
      REQUIRE_THROWS_WITH(pool.parallel_for(20,
                                            [](std::int64_t task, int) {
                                              if (task == 7) throw std::runtime_error("task 7");
                                            }),
                          "task 7");
      std::atomic<int> done{0};
      pool.parallel_for(20, [&](std::int64_t, int) { ++done; });
      REQUIRE(done == 20);
    }
  }
}

TEST_CASE("pools of several ranks in one process do not disturb each other") {
  std::vector<std::thread> ranks;
  std::atomic<std::int64_t> total{0};
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&] {
      ThreadPool pool(3, 12);
      for (int loop = 0; loop < 500; ++loop) pool.parallel_for(5, [&](std::int64_t task, int) { total += task; });
    });
  }
  for (auto& rank : ranks) rank.join();
  REQUIRE(total == 4 * 500 * 10);
}

#if defined(__x86_64__)
TEST_CASE("workers compute with the caller's floating-point mode") {
  ThreadPool pool(3);
  const unsigned before = _mm_getcsr();
  for (const unsigned mode : {_MM_ROUND_DOWN | _MM_FLUSH_ZERO_ON, _MM_ROUND_NEAREST | _MM_FLUSH_ZERO_OFF}) {
    _mm_setcsr((before & ~static_cast<unsigned>(_MM_ROUND_MASK | _MM_FLUSH_ZERO_MASK | 0x3f)) | mode);
    std::atomic<int> other{0};
    pool.parallel_for(200, [&](std::int64_t, int) {
      if ((_mm_getcsr() & (_MM_ROUND_MASK | _MM_FLUSH_ZERO_MASK)) != mode) ++other;
      std::this_thread::yield();
    });
    _mm_setcsr(before);
    REQUIRE(other == 0);
  }
}
#endif

TEST_CASE("a pool without threads is refused") { REQUIRE_THROWS_AS(ThreadPool(0), tessera::UsageError); }

TEST_CASE("a pool whose threads cannot all be started says so and leaves none behind") {
  for (const int there : {0, 1, 3}) {
    const tessera::test::OnlyThreads limit(there);
    REQUIRE_THROWS_WITH(ThreadPool(5),
                        Catch::Contains(fmt::format("cannot start the thread 'compute {}'", there + 1)) &&
                            Catch::Contains("run.threads = 5"));
  }
  REQUIRE(ThreadPool(5).threads() == 5);
}
