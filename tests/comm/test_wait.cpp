#include <catch2/catch.hpp>
#include <thread>

#include "comm/wait.hpp"
#include "local_world/block_notice.hpp"

using namespace tessera;

namespace {

using Clock = std::chrono::steady_clock;

struct Case {
  NoticeBlock block{};
  BlockNotice notice{block};
  std::atomic<std::uint32_t> word{0}, sleepers{0};

  bool wait(std::uint32_t target, double seconds, bool spin = false) {
    PeerDeadline deadline(seconds);
    return wait_until_reached(word, target, sleepers, spin, deadline, notice);
  }
};

}  // namespace

TEST_CASE("a word has reached what lies behind it, also across the wrap") {
  Case c;
  c.word = 5;
  CHECK(c.wait(5, 5));
  CHECK(c.wait(4, 5));
  CHECK_FALSE(c.wait(6, 0.001));
  c.word = 2;  // after 2^32 - 1 comes 0
  CHECK(c.wait(0xfffffffe, 5));
  c.word = 0xfffffffe;
  CHECK_FALSE(c.wait(2, 0.001));
  CHECK(c.sleepers == 0);
}

TEST_CASE("waiting ends at the deadline, and never without one") {
  Case c;
  const auto start = Clock::now();
  CHECK_FALSE(c.wait(1, 0.03));
  CHECK(Clock::now() - start >= std::chrono::milliseconds(30));
  CHECK(PeerDeadline(1e-9).passed());
  CHECK_FALSE(PeerDeadline(100).passed());
  CHECK_FALSE(PeerDeadline(0).passed());
}

TEST_CASE("whoever waits is woken by each word that is published") {
  constexpr std::uint32_t rounds = 300;
  for (const bool spin : {false, true}) {
    Case ping, pong;
    std::thread other([&] {
      for (std::uint32_t i = 1; i <= rounds; ++i) {
        if (!ping.wait(i, 60, spin)) return;
        if (i % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the other side falls asleep
        publish(pong.word, i, pong.sleepers);
      }
    });
    bool all = true;
    for (std::uint32_t i = 1; all && i <= rounds; ++i) {
      publish(ping.word, i, ping.sleepers);
      all = pong.wait(i, 60, spin);
    }
    other.join();
    CHECK(all);
    CHECK(ping.sleepers + pong.sleepers == 0);
  }
}

TEST_CASE("a failure elsewhere ends every kind of waiting") {
  Case c;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    c.notice.raise({3, ExitCode::input_output, "disk is full"});
  });
  CHECK_THROWS_WITH(c.wait(1, 60), Catch::Contains("rank 3 failed: disk is full"));
  other.join();
  CHECK(c.sleepers == 0);
  PollPause pause(c.notice);
  CHECK_THROWS_AS(pause.pause(), PeerError);
}

TEST_CASE("a poll that lasts leaves the core alone") {
  Case c;
  PollPause pause(c.notice);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  const auto start = Clock::now();
  for (int i = 0; i < 20; ++i) pause.pause();
  CHECK(Clock::now() - start >= 20 * std::chrono::microseconds(50));
}
