#include <sched.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "tessera/backend/cores.hpp"
#include "tessera/backend/futex.hpp"

using namespace tessera;

TEST_CASE("a thread that spins lets the one it waits for have the core they share") {
  const int core = allowed_core_numbers().front();
  constexpr std::uint32_t kTurns = 201;
  std::atomic<std::uint32_t> turn{0};
  std::vector<int> pauses;  // of the first thread, by turn
  const auto play = [&](std::uint32_t parity, std::vector<int>* counts) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(core), &one);
    sched_setaffinity(0, sizeof one, &one);
    for (std::uint32_t mine = parity; mine < 2 * kTurns; mine += 2) {
      int count = 0;
      for (Backoff backoff(true); turn.load() != mine; ++count) backoff.pause();
      if (counts != nullptr) counts->push_back(count);
      turn.store(mine + 1);
    }
  };
  std::thread first(play, 0, &pauses), second(play, 1, nullptr);
  first.join(), second.join();
  std::nth_element(pauses.begin(), pauses.begin() + kTurns / 2, pauses.end());
  CHECK(pauses[kTurns / 2] < 1000);  // most turns; all of its spins are 4096
}
