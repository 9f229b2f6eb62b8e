#include <dnnl.h>
#include <pthread.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <thread>
#include <vector>

#include "tessera/engine/stop.hpp"

using namespace tessera;

// A handler's frame on the stack of a product would lie in the product's own buffers, and end the program sooner or
// later.
TEST_CASE("signals leave matrix products alone") {
  constexpr std::int64_t n = 96, wide = 160;
  const std::vector<float> a(n * wide, 1.0f), b(n * wide, 2.0f);
  std::vector<float> c(n * n);
  for (int round = 0; round < 10; ++round) {
    const StopSignals signals;
    REQUIRE(signals.received().empty());
    std::atomic<bool> over{false};
    // Well under the half second after which a second signal ends the program.
    std::thread sender([&, computing = pthread_self()] {
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
      while (std::chrono::steady_clock::now() < end) {
        pthread_kill(computing, SIGUSR1);
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
      over = true;
    });
    while (!over) {
      REQUIRE(dnnl_sgemm('N', 'T', n, n, wide, 1.0f, a.data(), wide, b.data(), wide, 0.0f, c.data(), n) ==
              dnnl_success);
    }
    sender.join();
    REQUIRE(c.front() == 2.0f * wide);
    REQUIRE(c.back() == 2.0f * wide);
    REQUIRE(signals.received() == "SIGUSR1");
  }
}
