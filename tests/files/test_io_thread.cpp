#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <future>
#include <stdexcept>
#include <vector>

#include "tessera/files/io_thread.hpp"

using namespace tessera;

TEST_CASE("rows overtake bulk data, and keep their order") {
  std::vector<int> order;
  std::promise<void> gate;
  {
    IoThread io;
    io.post(IoPriority::rows, [&] { gate.get_future().wait(); });
    for (int i = 0; i < 3; ++i) io.post(IoPriority::bulk, [&order, i] { order.push_back(100 + i); });
    for (int i = 0; i < 3; ++i) io.post(IoPriority::rows, [&order, i] { order.push_back(i); });
    gate.set_value();
  }
  CHECK(order == std::vector<int>{0, 1, 2, 100, 101, 102});
}

TEST_CASE("run gives results and exceptions back") {
  IoThread io;
  CHECK(io.run([] { return 42; }) == 42);
  CHECK(io.run([] { return std::string("bulk"); }, IoPriority::bulk) == "bulk");
  CHECK_THROWS_AS(io.run([] { throw std::runtime_error("disk"); }), std::runtime_error);
  const auto here = std::this_thread::get_id();
  CHECK(io.run([&] { return std::this_thread::get_id() != here; }));
}

TEST_CASE("what is queued runs before the thread ends, delayed tasks too") {
  std::atomic<int> done{0};
  {
    IoThread io;
    io.post_after(std::chrono::hours(24), [&] { done += 1; });
    io.post(IoPriority::bulk, [&] { done += 10; });
    io.run([] {});
    CHECK(done % 2 == 0);  // the delayed one has not run yet
  }
  CHECK(done == 11);
}

TEST_CASE("a delayed task runs when its time has come") {
  IoThread io;
  std::promise<void> ran;
  io.post_after(std::chrono::milliseconds(1), [&] { ran.set_value(); });
  ran.get_future().wait();
}

TEST_CASE("a full queue holds the poster back until there is room") {
  std::atomic<int> done{0};
  {
    IoThread io(2);
    for (int i = 0; i < 1000; ++i) io.post(IoPriority::rows, [&] { ++done; });
    CHECK(done >= 1000 - 3);  // two wait, one runs
  }
  CHECK(done == 1000);
}

TEST_CASE("signals are blocked on the I/O thread only") {
  IoThread io;
  const auto blocked = [] {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGUSR1) == 1;
  };
  CHECK(io.run(blocked));
  CHECK_FALSE(blocked());
}
