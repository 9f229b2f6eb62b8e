// The clock of all limits on waiting, with times that are given to it.

#include <catch2/catch.hpp>
#include <random>

#include "tessera/base/waited_time.hpp"

using namespace tessera;

namespace {

/// A waiter and its steady clock.
struct Waiter {
  WaitedTime::Clock::time_point now;
  WaitedTime time;

  explicit Waiter(double limit) : time(limit, now) {}
  double after(double seconds) {
    now += std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
    return time.look(now);
  }
};

double drawn(std::mt19937& random, double least, double most) {
  return std::uniform_real_distribution<double>(least, most)(random);
}

}  // namespace

TEST_CASE("time that passes between frequent looks counts whole") {
  std::mt19937 random(1);
  for (const double limit : {0.0, 0.05, 2.0, 300.0}) {
    Waiter waiter(limit);
    double sum = 0;
    for (int i = 0; i < 1000; ++i) {
      const double passed = drawn(random, 0, waiter.time.pause());
      sum += passed;
      REQUIRE(waiter.after(passed) == Approx(sum));
      REQUIRE(waiter.time.left_out() == 0);
    }
  }
}

TEST_CASE("a stop never ends a wait, however long it was, and whenever it came") {
  std::mt19937 random(2);
  for (int round = 0; round < 1000; ++round) {
    const double limit = drawn(random, 0.5, 600);
    Waiter waiter(limit);
    const double before = drawn(random, 0, limit / 2);
    while (waiter.time.look(waiter.now) < before) waiter.after(0.005);
    const double stopped = drawn(random, 0, 1e6), waited = waiter.after(stopped);
    REQUIRE(waited < limit);
    REQUIRE(waited + waiter.time.left_out() == Approx(before + stopped).margin(0.01));
  }
}

TEST_CASE("a wait ends by its limit, in time where looks come in time, and late where they are late") {
  for (const double limit : {0.5, 3.0, 300.0}) {
    Waiter waiter(limit);
    int looks = 0;
    while (waiter.after(0.005) < limit) ++looks;
    CHECK(looks == Approx(limit / 0.005).margin(2));
    for (const double late : {2.0, 1e3}) {  // each sleep, on a machine that hardly gets to it
      Waiter loaded(limit);
      int all = 1;
      while (loaded.after(late) < limit) ++all;
      CHECK(all <= 4 * std::max(limit, 1.0));
    }
  }
}
